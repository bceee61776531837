/* A trained policy in a control loop of C, at a fixed rate.
 *
 *   cargo build --release --package sskp-c
 *   cc -O2 examples/control_loop.c -I crates/c/include target/release/libsskp_policy.a -lpthread -ldl -lm -o control_loop
 *   ./control_loop runs/hopper 1000
 */
#define _POSIX_C_SOURCE 200809L
#include <sskp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 1024

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Stands for the sensors: numbers that change a little from step to step, the same ones every time. */
static void read_sensors(long step, float *observation, size_t n) {
    for (size_t i = 0; i < n; i++) {
        observation[i] = 0.1f * (float)((step * 7 + (long)i * 13) % 11) - 0.5f;
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: control_loop RUN [STEPS [HERTZ]]\n");
        return 2;
    }
    char error[512];
    sskp_policy *policy = sskp_policy_load(argv[1], error, sizeof error);
    if (policy == NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    long steps = argc > 2 ? atol(argv[2]) : 1000;
    double period = argc > 3 ? 1.0 / atof(argv[3]) : 0.0;
    float observation[MOST], action[MOST], risk = 0;
    size_t observations = sskp_policy_observations(policy), actions = sskp_policy_actions(policy);
    if (observations > MOST || actions > MOST) {
        fprintf(stderr, "this example has room for %d numbers\n", MOST);
        return 1;
    }
    double longest = 0, next = now();
    sskp_policy_begin(policy);
    for (long step = 0; step < steps; step++) {
        read_sensors(step, observation, observations);
        double began = now();
        int wrong = sskp_policy_act(policy, observation, observations, action, actions);
        double took = now() - began;
        if (wrong != SSKP_OK) {
            fprintf(stderr, "step %ld: no action (%d): stop the motors\n", step, wrong);
            return 1;
        }
        longest = took > longest ? took : longest;
        if (step < 3 || step == steps - 1) {
            printf("step %ld:", step);
            for (size_t i = 0; i < actions; i++) {
                printf(" %.6f", action[i]);
            }
            if (sskp_policy_risk(policy, &risk) == SSKP_OK) {
                printf(" risk %.6f", risk);
            }
            printf("\n");
        }
        next += period;
        double wait = next - now();
        if (wait > 0) {
            struct timespec pause = {(time_t)wait, (long)(1e9 * (wait - (double)(time_t)wait))};
            nanosleep(&pause, NULL);
        }
    }
    fprintf(stderr, "longest decision: %.1f us\n", 1e6 * longest);
    sskp_policy_free(policy);
    return 0;
}
