// MuJoCo's C API as crates/mujoco uses it.
//
// The library is opened at run time, so that no program that depends on us needs linker arguments or a run-time search
// path. Its headers are used at compile time, so that the layout of mjModel and mjData, the types of the functions and
// the numbers of the constants that src/lib.rs repeats are checked by the compiler instead of written down by us.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <mujoco/mujoco.h>

_Static_assert(mjVERSION_HEADER == 3017000, "the headers are those of another MuJoCo than 3.17.0");
_Static_assert(sizeof(mjtNum) == 8, "MuJoCo's numbers are f64");
_Static_assert(mjOBJ_BODY == 1 && mjOBJ_JOINT == 3 && mjOBJ_GEOM == 5, "enum Object");
_Static_assert(mjGEOM_PLANE == 0 && mjGEOM_SPHERE == 2 && mjGEOM_CAPSULE == 3 && mjGEOM_ELLIPSOID == 4 &&
               mjGEOM_CYLINDER == 5 && mjGEOM_BOX == 6, "enum Shape");
_Static_assert(mjWARN_INERTIA == 0 && mjWARN_CONTACTFULL == 1 && mjWARN_CNSTRFULL == 2 && mjWARN_BADQPOS == 3 &&
               mjWARN_BADQVEL == 4 && mjWARN_BADQACC == 5 && mjWARN_BADCTRL == 6 && mjNWARNING == 7, "enum Warning");

#define FUNCTIONS(F)                                                                                                  \
    F(mj_version) F(mju_setLogHandler)                                                                                \
    F(mj_defaultVFS) F(mj_addBufferVFS) F(mj_deleteVFS) F(mj_loadXML) F(mj_deleteModel)                               \
    F(mj_name2id) F(mj_id2name) F(mj_stateSize)                                                                       \
    F(mj_makeData) F(mj_deleteData) F(mj_resetData)                                                                   \
    F(mj_getState) F(mj_setState)                                                                                     \
    F(mj_forward) F(mj_step) F(mj_kinematics) F(mj_rnePostConstraint)

// Pointers to MuJoCo's functions, each with the type that the header declares.
static struct {
#define F(name) __typeof__(&name) name;
    FUNCTIONS(F)
#undef F
} mujoco;

// MuJoCo would write warnings to stderr and to MUJOCO_LOG.TXT in the current folder. Warnings of a simulation are read
// from its counters instead. After an error MuJoCo cannot go on, and a handler must not return.
static void handle(const mjLogMessage *message) {
    if (message->level == mjLOG_ERROR) {
        fprintf(stderr, "error: MuJoCo cannot go on: %s\n", message->subject);
        exit(1);
    }
}

// Opens the library; the reason why it cannot be used, or NULL.
const char *sskp_mj_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return dlerror();
#define F(name)                                               \
    *(void **)&mujoco.name = dlsym(library, #name);           \
    if (!mujoco.name) return "it has no function " #name;
    FUNCTIONS(F)
#undef F
    if (mujoco.mj_version() != mjVERSION_HEADER) return "it is another version than 3.17.0";
    mujoco.mju_setLogHandler(handle);
    return NULL;
}

// Loads the file `name`, or the text `xml` if there is one; `error` receives why not.
mjModel *sskp_mj_load(const char *name, const char *xml, int length, char *error, int size) {
    if (!xml) return mujoco.mj_loadXML(name, NULL, error, size);
    mjVFS files;
    mujoco.mj_defaultVFS(&files);
    mjModel *model = NULL;
    if (mujoco.mj_addBufferVFS(&files, name, xml, length) == 0) {
        model = mujoco.mj_loadXML(name, &files, error, size);
    }
    mujoco.mj_deleteVFS(&files);
    return model;
}

void sskp_mj_delete_model(mjModel *m) { mujoco.mj_deleteModel(m); }
int sskp_mj_name2id(const mjModel *m, int type, const char *name) { return mujoco.mj_name2id(m, type, name); }
const char *sskp_mj_id2name(const mjModel *m, int type, int id) { return mujoco.mj_id2name(m, type, id); }
double sskp_mj_timestep(const mjModel *m) { return m->opt.timestep; }
int sskp_mj_state_size(const mjModel *m) { return mujoco.mj_stateSize(m, mjSTATE_INTEGRATION); }

#define SIZE(name) int64_t sskp_mj_##name(const mjModel *m) { return m->name; }
SIZE(nq) SIZE(nv) SIZE(nu) SIZE(nbody) SIZE(njnt) SIZE(ngeom) SIZE(nactuator)

#define MODEL(type, name) const type *sskp_mj_##name(const mjModel *m) { return m->name; }
MODEL(double, body_mass) MODEL(int, geom_type) MODEL(double, geom_size) MODEL(float, geom_rgba) MODEL(int, actuator_trnid)

mjData *sskp_mj_make_data(const mjModel *m) { return mujoco.mj_makeData(m); }
void sskp_mj_delete_data(mjData *d) { mujoco.mj_deleteData(d); }

#define RUN(name, function) void sskp_mj_##name(const mjModel *m, mjData *d) { mujoco.function(m, d); }
RUN(reset, mj_resetData) RUN(forward, mj_forward) RUN(step, mj_step) RUN(kinematics, mj_kinematics)
RUN(rne_post_constraint, mj_rnePostConstraint)

void sskp_mj_get_state(const mjModel *m, const mjData *d, double *state) {
    mujoco.mj_getState(m, d, state, mjSTATE_INTEGRATION);
}
void sskp_mj_set_state(const mjModel *m, mjData *d, const double *state) {
    mujoco.mj_setState(m, d, state, mjSTATE_INTEGRATION);
}

#define DATA(name) double *sskp_mj_##name(const mjData *d) { return d->name; }
DATA(qpos) DATA(qvel) DATA(ctrl) DATA(xpos) DATA(xipos) DATA(geom_xpos) DATA(geom_xmat) DATA(cfrc_ext)

int sskp_mj_warnings(const mjData *d, int kind) { return d->warning[kind].number; }
int sskp_mj_ncon(const mjData *d) { return d->ncon; }
void sskp_mj_contact(const mjData *d, int i, int geoms[2]) {
    geoms[0] = d->contact[i].geom[0];
    geoms[1] = d->contact[i].geom[1];
}
