/* Counts what the library asks of the system's allocator after the load: nothing is allowed. Linked with --wrap for every function. */
#include <sskp.h>
#include <stdio.h>
#include <stdlib.h>

static volatile long calls;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **p, size_t a, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);

void *__wrap_malloc(size_t n) { return calls++, __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return calls++, __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { return calls++, __real_realloc(p, n); }
int __wrap_posix_memalign(void **p, size_t a, size_t n) { return calls++, __real_posix_memalign(p, a, n); }
void *__wrap_aligned_alloc(size_t a, size_t n) { return calls++, __real_aligned_alloc(a, n); }

int main(int argc, char **argv) {
    char error[256];
    float observation[5] = {0}, action[2] = {0}, wrong[5] = {0, 0, 0.0f / 0.0f, 0, 0}, risk;
    sskp_policy *policy = argc > 1 ? sskp_policy_load(argv[1], error, sizeof error) : NULL;
    if (policy == NULL || calls == 0) {
        printf("not loaded, or not counted: %ld calls\n", calls);
        return 2;
    }
    calls = 0;
    for (int step = 0; step < 100; step++) {
        observation[step % 5] = 0.01f * (float)step - 0.3f;
        if (step == 57) {
            sskp_policy_begin(policy);
        }
        if (sskp_policy_act(policy, observation, 5, action, 2) != SSKP_OK || sskp_policy_act(policy, observation, 4, action, 2) != SSKP_LENGTH ||
            sskp_policy_act(policy, wrong, 5, action, 2) != SSKP_NOT_FINITE || sskp_policy_act(policy, NULL, 5, action, 2) != SSKP_NULL) {
            return 3;
        }
        sskp_policy_risk(policy, &risk);
    }
    long after = calls;
    printf("%ld calls after the load\n", after);
    sskp_policy_free(policy);
    sskp_policy_free(NULL);
    if (sskp_policy_load(NULL, error, 8) != NULL || error[7] != 0 || sskp_policy_load("nowhere", NULL, 0) != NULL) {
        return 4;
    }
    if (sskp_policy_begin(NULL) != SSKP_NULL || sskp_policy_actions(NULL) != 0 || sskp_policy_risk(NULL, &risk) != SSKP_NULL) {
        return 5;
    }
    return after == 0 ? 0 : 1;
}
