/* What sessions on a GPU leave behind: the GPU's memory and the process's, over many sessions and many runs. CHECKs of the running test. */
#ifndef SINEW_TESTS_SUPPORT_VULKAN_LEAKS_H
#define SINEW_TESTS_SUPPORT_VULKAN_LEAKS_H

/* Sessions made, run once and destroyed. */
void vulkan_leaks_of_sessions(int n);
/* Runs of one session. */
void vulkan_leaks_of_runs(int n);

#endif
