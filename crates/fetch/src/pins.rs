//! What is fetched: two Python wheels, and the sha256 of every file that we take out of them.

/// The release of MuJoCo that everything here is pinned to.
pub const VERSION: &str = "3.17.0";

/// The file name of MuJoCo's library (its SONAME).
pub const LIBRARY: &str = "libmujoco.so.3.17.0";

/// What MuJoCo's own headers say about their version.
pub const HEADER_LINE: &str = "#define mjVERSION_HEADER 3017000";

/// A wheel, and the files that we take out of it.
pub struct Wheel {
    pub package: &'static str,
    pub version: &'static str,
    pub files: &'static [Pinned],
}

pub struct Pinned {
    /// Path inside the wheel.
    pub member: &'static str,
    /// Path inside the folder that is filled.
    pub place: &'static str,
    pub sha256: &'static str,
}

impl Pinned {
    pub fn is_header(&self) -> bool {
        self.place.ends_with(".h")
    }
}

/// A header lies at the same path in the wheel and here.
const fn header(path: &'static str, sha256: &'static str) -> Pinned {
    Pinned { member: path, place: path, sha256 }
}

/// Apache-2.0. The wheels for all versions of Python carry the same library and headers. These headers are `mujoco.h`
/// and what it includes.
pub const MUJOCO: Wheel = Wheel {
    package: "mujoco",
    version: VERSION,
    files: &[
        Pinned {
            member: "mujoco/libmujoco.so.3.17.0",
            place: "mujoco/libmujoco.so.3.17.0",
            sha256: "23496b023ee80fb61ab71167e94bc649f9941710fde96b18bb8204fb332523ad",
        },
        header("mujoco/include/mujoco/mujoco.h", "33f1f596afb4413ff4bb677e3173363360f833d1107f652ca8b8be041ae5d025"),
        header("mujoco/include/mujoco/mjassert.h", "0b942f56393632a8f93620e2862671ac6886710a72d12557c426b9e6c8cd1a0d"),
        header("mujoco/include/mujoco/mjdata.h", "cc62469946f6d4ce8644ac86aad42bf2886a358c28d1343a8c12a039a3560e6e"),
        header("mujoco/include/mujoco/mjexport.h", "2d0ec44615ce9e0dd3d80ce9ca2a8bcad1906840d2ab6b5a9af785f7be989f8b"),
        header("mujoco/include/mujoco/mjmacro.h", "067e74ccb1a17c3ca555d46cbae5cd86778220e5238706e40ea9bc7139cb7012"),
        header("mujoco/include/mujoco/mjmodel.h", "af8bbffd810da5af097c2da5d9baefdf79b75b24b10f6bf0ba147ef8331e3e4e"),
        header("mujoco/include/mujoco/mjplugin.h", "39e06e34906be7ac71746e9422fb79d8273589af2c44510c08680903f317834f"),
        header("mujoco/include/mujoco/mjrender.h", "689a3d4e9f952b474352b5251f90efaa4a7dd26a654dbc7192bbb3df2f20c806"),
        header("mujoco/include/mujoco/mjsan.h", "073dd61c66dc1b467c32de5975ced9b50f979e2b4951b5d379b450a16d085e11"),
        header("mujoco/include/mujoco/mjspec.h", "edf7beb498f384bee5dd836d14b97030a15274ab275a32aff10dfa18a64939d7"),
        header(
            "mujoco/include/mujoco/mjspecmacro.h",
            "7fdec90def5d58a5a6de20dcdad2342733db86cc4b79c12aca72cc0b7f9c92b9",
        ),
        header("mujoco/include/mujoco/mjtype.h", "d1a9debb9d2453b9baf80ce1df79dcb8b4930bd695457b2af5d8bb39b8510b1f"),
        header("mujoco/include/mujoco/mjui.h", "797532f5e00744561ba08c938fe30deba6f7c595f7c6e9834e6bb4f74a77fedc"),
        header(
            "mujoco/include/mujoco/mjvisualize.h",
            "e733fce1897f54384945f8eda87d89ba3aeaf2b63e1604d63d05991f60ec184e",
        ),
        header("mujoco/include/mujoco/mjxmacro.h", "f5bde770caf11a082b4d9fdb3aeb6bf230172daf96e73ae4a87fde0ceb2f8588"),
    ],
};

/// MIT.
pub const ROBOTS: Wheel = Wheel {
    package: "gymnasium",
    version: "1.4.0",
    files: &[
        Pinned {
            member: "gymnasium/envs/mujoco/assets/ant.xml",
            place: "assets/ant.xml",
            sha256: "cd5f83ef0ea35b0969e65d360c5bacd5b74ccaef6b27e4433b5168c605e3e2be",
        },
        Pinned {
            member: "gymnasium/envs/mujoco/assets/half_cheetah.xml",
            place: "assets/half_cheetah.xml",
            sha256: "11797a5d69e8ac955e89ca6fdd3a0087f1c990094fda401ac51420de1b6c5494",
        },
        Pinned {
            member: "gymnasium/envs/mujoco/assets/hopper.xml",
            place: "assets/hopper.xml",
            sha256: "3ce93a055ffdcd83c0c701d2400768e40d2cbb9532f3c4ae33377c27f8b39f9e",
        },
        Pinned {
            member: "gymnasium/envs/mujoco/assets/humanoid.xml",
            place: "assets/humanoid.xml",
            sha256: "85816f372c826d2094b4a598918233bd9c5843b2439119eece2733bdc2e0d073",
        },
    ],
};
