/* Trained policies of sskp for control loops in C.
 *
 * Build: cargo build --release --package sskp-c
 * Link:  cc loop.c -I crates/c/include target/release/libsskp_policy.a -lpthread -ldl -lm
 *
 * After sskp_policy_load nothing is allocated, nothing waits and nothing ends the program. A policy is used by one thread at a time;
 * several may be loaded. Load it in the thread that acts. Example: examples/control_loop.c.
 */
#ifndef SSKP_H
#define SSKP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sskp_policy sskp_policy;

/* What calls return. */
enum {
    SSKP_OK = 0,
    SSKP_NULL = 1,       /* a pointer is null */
    SSKP_LENGTH = 2,     /* an observation or action has another length */
    SSKP_NOT_FINITE = 3, /* an observation is NaN or infinite; the action was not touched */
    SSKP_NONE = 4,       /* this policy predicts no risk */
    SSKP_BROKEN = 5      /* a mistake in sskp; the action was not touched */
};

/* Loads the policy of a run directory (its newest checkpoint), or of one checkpoint. On failure gives null and writes one sentence to
 * `error`, which has room for `size` characters with the zero; `error` may be null. */
sskp_policy *sskp_policy_load(const char *path, char *error, size_t size);

/* Lets go of it; null is fine. */
void sskp_policy_free(sskp_policy *policy);

/* Numbers in an observation and in an action; 0 of null. */
size_t sskp_policy_observations(const sskp_policy *policy);
size_t sskp_policy_actions(const sskp_policy *policy);

/* An episode begins. */
int sskp_policy_begin(sskp_policy *policy);

/* The action for an observation, the policy's best guess, in the environment's own limits (our robots: -1 to 1). */
int sskp_policy_act(sskp_policy *policy, const float *observation, size_t observations, float *action, size_t actions);

/* The probability of a violation predicted for the skill that is being played. */
int sskp_policy_risk(const sskp_policy *policy, float *risk);

#ifdef __cplusplus
}
#endif
#endif
