/* onnx_elements.c - the elements of an ONNX tensor as numbers, whatever their type and place in the
 * file. */
#include "model/onnx.h"

#include <math.h>
#include <string.h>

static double half_to_double(uint16_t half)
{
    int exponent = (half >> 10) & 31, mantissa = half & 1023;
    double value = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return half & 0x8000 ? -value : value;
}

static double raw_element(int type, const uint8_t *at)
{
    union {
        float f;
        double d;
        int64_t i64;
        int32_t i32;
        uint16_t u16;
    } u = {.i64 = 0};
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        memcpy(&u.f, at, sizeof u.f);
        return (double)u.f;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        memcpy(&u.d, at, sizeof u.d);
        return u.d;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        memcpy(&u.u16, at, sizeof u.u16);
        return half_to_double(u.u16);
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        memcpy(&u.i64, at, sizeof u.i64);
        return (double)u.i64;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        memcpy(&u.i32, at, sizeof u.i32);
        return u.i32;
    default:
        return *at; /* bool */
    }
}

/* Bytes of the types whose elements shape computations use; 0 for the others. */
static size_t raw_size(int type)
{
    static const uint8_t SIZES[] = {
        [ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT] = 4,   [ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE] = 8,
        [ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16] = 2, [ONNX__TENSOR_PROTO__DATA_TYPE__INT64] = 8,
        [ONNX__TENSOR_PROTO__DATA_TYPE__INT32] = 4,   [ONNX__TENSOR_PROTO__DATA_TYPE__BOOL] = 1,
    };
    return type >= 0 && (size_t)type < COUNT_OF(SIZES) ? SIZES[type] : 0;
}

double *onnx_tensor_values(struct arena *scratch, const Onnx__TensorProto *tensor)
{
    int64_t count = 1;
    for (size_t i = 0; i < tensor->n_dims; i++)
        if (tensor->dims[i] < 0 || !checked_mul(count, tensor->dims[i], &count))
            return NULL;
    if (count > ONNX_MAX_CONSTANT)
        return NULL;
    size_t n = (size_t)count, size = raw_size(tensor->data_type);
    double *values = ARENA_ARRAY(scratch, double, n + 1);
    if (n && size && tensor->has_raw_data && tensor->raw_data.len >= n * size) {
        for (size_t i = 0; i < n; i++)
            values[i] = raw_element(tensor->data_type, tensor->raw_data.data + i * size);
    } else if (tensor->n_int64_data >= n && n) {
        for (size_t i = 0; i < n; i++)
            values[i] = (double)tensor->int64_data[i];
    } else if (tensor->n_float_data >= n && n) {
        for (size_t i = 0; i < n; i++)
            values[i] = (double)tensor->float_data[i];
    } else if (tensor->n_int32_data >= n && n && size > 2) {
        for (size_t i = 0; i < n; i++)
            values[i] = tensor->int32_data[i];
    } else if (n) {
        return NULL;
    }
    return values;
}
