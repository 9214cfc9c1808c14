// What tests ask of the emulation (emulate.h), which is C++.
#ifndef MUSTER_TESTS_TRAINER_CUDA_EMULATED_H
#define MUSTER_TESTS_TRAINER_CUDA_EMULATED_H

#ifdef __cplusplus
extern "C" {
#endif
void emulated_captures(int ops); // how many can be captured from now on; -1: all
int emulated_graphs(void);       // that have been launched
#ifdef __cplusplus
}
#endif

#endif
