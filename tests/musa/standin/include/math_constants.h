// A few of the constants.
#pragma once
#define MUSART_INF_F __builtin_inff()
#define MUSART_NAN_F __builtin_nanf("")
#define MUSART_PI_F 3.141592654f
#define MUSART_INF __builtin_inf()
#define MUSART_PI 3.14159265358979323846
