// muRAND's device functions: cuRAND's under MUSA's names.
#pragma once
#include "musahost/musa_names.h"
#include "musahost/random.h"

#define murand curand
#define murand4 curand4
#define murandState curandState
#define murandStateMRG32k3a curandStateMRG32k3a
#define murandStateMRG32k3a_t curandStateMRG32k3a_t
#define murandStatePhilox4_32_10 curandStatePhilox4_32_10
#define murandStatePhilox4_32_10_t curandStatePhilox4_32_10_t
#define murandStateXORWOW curandStateXORWOW
#define murandStateXORWOW_t curandStateXORWOW_t
#define murandState_t curandState_t
#define murand_init curand_init
#define murand_log_normal curand_log_normal
#define murand_log_normal_double curand_log_normal_double
#define murand_normal curand_normal
#define murand_normal2 curand_normal2
#define murand_normal2_double curand_normal2_double
#define murand_normal4 curand_normal4
#define murand_normal_double curand_normal_double
#define murand_uniform curand_uniform
#define murand_uniform2_double curand_uniform2_double
#define murand_uniform4 curand_uniform4
#define murand_uniform_double curand_uniform_double
#define murand_state_philox4x32_10 curandStatePhilox4_32_10_t
