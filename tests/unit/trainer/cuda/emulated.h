// The emulation's interface for tests, in C (emulate.h is C++).
#ifndef MUSTER_TESTS_TRAINER_CUDA_EMULATED_H
#define MUSTER_TESTS_TRAINER_CUDA_EMULATED_H

#ifdef __cplusplus
extern "C" {
#endif
void emulated_captures(int ops); // how many ops can still be captured; -1: all
int emulated_graphs(void);       // number of launched graphs
#ifdef __cplusplus
}
#endif

#endif
