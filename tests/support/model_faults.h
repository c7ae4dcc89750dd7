/* Sweeps that fail one allocation or one file operation after the other while models load, train, are saved
 * and generate: each time an error with a message, nothing leaked, and going on gives what it would have
 * given. `stride` 1: every allocation in turn; 2: every other, … */
#ifndef SINEW_TESTS_SUPPORT_MODEL_FAULTS_H
#define SINEW_TESTS_SUPPORT_MODEL_FAULTS_H

#include <stdint.h>

void faults_while_loading(int64_t stride);
void faults_while_training(int64_t stride);
void faults_while_saving(int64_t stride);
void faults_while_generating(int64_t stride);
/* File operations are few: always all of them. */
void io_faults_while_loading(void);
void io_faults_while_saving(void);

#endif
