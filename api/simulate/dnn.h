/* Shared by the files of cuDNN. */
#ifndef MEND_SIMULATE_DNN_H
#define MEND_SIMULATE_DNN_H

#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

/* cudnnStatus_t */
enum {
    DNN_SUCCESS = 0,
    DNN_BAD_PARAMETER = 2000,
    DNN_NOT_SUPPORTED = 3000,
    DNN_ALLOC_FAILED = 4003,
    DNN_FAILED = 5000
};

typedef struct dnn_handle {
    mend_stream stream;
} dnn_handle;

enum { DNN_MOST_DIMENSIONS = 8 };

/* A tensor, or a filter, which has no strides. */
typedef struct dnn_tensor {
    int type; /* cudnnDataType_t */
    int count;
    int sizes[DNN_MOST_DIMENSIONS];
    int strides[DNN_MOST_DIMENSIONS];
} dnn_tensor;

/* The bytes of an element of a cudnnDataType_t. */
uint64_t simulate_dnn_width(int type);

/* Sets a tensor's description. */
int cudnnSetTensorNdDescriptor(dnn_tensor *tensor, int type, int count, const int *sizes,
                               const int *strides);

/* A kernel on the handle's stream. */
int simulate_dnn_launch(const dnn_handle *handle);

#endif
