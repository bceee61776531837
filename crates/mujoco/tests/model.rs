//! Models from texts and files, and simulations of them.

use std::path::Path;
use std::sync::Arc;

use sskp_mujoco::{Data, Model, Object, Shape, Warning};

const BALL_OVER_FLOOR: &str = r#"<mujoco><option timestep="0.004"/><worldbody>
    <geom name="floor" type="plane" size="5 5 1"/>
    <body name="ball" pos="0 0 0.5"><freejoint name="free"/><geom name="skin" type="sphere" size="0.1" mass="2"/></body>
    </worldbody></mujoco>"#;

fn ball() -> Data {
    Data::new(Arc::new(Model::from_xml(BALL_OVER_FLOOR).unwrap())).unwrap()
}

#[test]
fn a_model_says_what_is_in_it() {
    let data = ball();
    let model = data.model();
    assert_eq!((model.nq(), model.nv(), model.nu()), (7, 6, 0));
    assert_eq!((model.bodies(), model.joints(), model.geoms()), (2, 1, 2));
    assert_eq!((model.timestep(), model.body_mass()), (0.004, &[0.0, 2.0][..]));
    assert_eq!(model.geom_shapes().collect::<Vec<_>>(), [Shape::Plane, Shape::Sphere]);
    assert_eq!(model.geom_size()[1][0], 0.1);
    assert!(model.actuator_target().is_empty());
    assert_eq!((model.id(Object::Geom, "skin"), model.id(Object::Geom, "nobody")), (Some(1), None));
    assert_eq!((model.name(Object::Body, 1), model.name(Object::Body, 9)), (Some("ball"), None));
}

#[test]
fn a_ball_falls_to_the_floor_and_a_saved_state_goes_on_bit_for_bit() {
    let mut data = ball();
    let mut steps = 0;
    while data.contacts().next().is_none() {
        data.step();
        steps += 1;
        assert!(steps < 200, "half a metre takes 0.29 s");
    }
    assert_eq!(data.contacts().next(), Some([0, 1]));
    assert!((0.25..0.35).contains(&(f64::from(steps) * 0.004)), "{steps} steps");

    let state = data.state();
    assert_eq!(state.len(), data.model().state_size());
    let mut other = ball();
    other.set_state(&state);
    for _ in 0..50 {
        data.step();
        other.step();
    }
    assert_eq!(data.qpos(), other.qpos());
    assert_eq!(data.qvel(), other.qvel());
}

#[test]
fn a_velocity_that_is_no_number_is_a_warning_until_the_next_reset() {
    let mut data = ball();
    data.qvel_mut()[0] = f64::NAN;
    data.step();
    assert_eq!(data.warning(), Some(Warning::BadVelocity));
    data.reset();
    assert_eq!(data.warning(), None);
}

#[test]
fn what_is_wrong_with_a_description_comes_back_in_mujocos_words_on_one_line() {
    for (xml, part) in [
        ("<mujoco><worldbody><body><joint/></body></worldbody></mujoco>", "mass"),
        ("<mujoco><wordbody/></mujoco>", "wordbody"),
        ("", "XML"),
        ("no XML", "XML"),
    ] {
        let sentence = Model::from_xml(xml).map(|_| ()).unwrap_err().to_string();
        assert!(sentence.contains(part) && !sentence.contains('\n'), "{xml}: {sentence}");
    }
    let sentence = Model::from_file(Path::new("/nowhere/robot.xml")).map(|_| ()).unwrap_err().to_string();
    assert!(sentence.contains("/nowhere/robot.xml"), "{sentence}");
}

#[test]
fn a_file_is_loaded_with_what_it_includes() {
    let folder = std::env::temp_dir().join(format!("sskp-mujoco-file-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("ball.xml"), BALL_OVER_FLOOR).unwrap();
    std::fs::write(folder.join("robot.xml"), r#"<mujoco><include file="ball.xml"/></mujoco>"#).unwrap();
    let model = Model::from_file(&folder.join("robot.xml")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(model.id(Object::Body, "ball"), Some(1));
}
