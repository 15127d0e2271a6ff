/* The entry points of user objects, which hear when the graph that owns them is no more. */
#include <stdlib.h>

#include "tests/support/fake_cuda/entries.h"

struct CUuserObject_st {
    void *data;
    mend_cu_host_function destroy;
    unsigned int references;
};

static void drop(mend_cu_user_object object, unsigned int count)
{
    object->references -= count;
    if (object->references == 0) {
        object->destroy(object->data);
        free(object);
        fake_cuda_get()->user_objects--;
    }
}

static void drop_last(void *object)
{
    drop(object, 1);
}

mend_status cuUserObjectCreate(mend_cu_user_object *object, void *data,
                               mend_cu_host_function destroy, unsigned int references,
                               unsigned int flags)
{
    if (flags != MEND_CU_USER_OBJECT_NO_SYNC || references == 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    *object = malloc(sizeof(**object));
    if (*object == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    **object = (struct CUuserObject_st){data, destroy, references};
    fake_cuda_get()->user_objects++;
    return MEND_DRIVER_OK;
}

mend_status cuUserObjectRelease(mend_cu_user_object object, unsigned int count)
{
    if (object == NULL || count == 0 || count > object->references) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    drop(object, count);
    return MEND_DRIVER_OK;
}

mend_status cuGraphRetainUserObject(mend_cu_graph graph, mend_cu_user_object object,
                                    unsigned int count, unsigned int flags)
{
    if (count != 1 || flags != MEND_CU_USER_OBJECT_MOVE) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    return inner()->capture_keep(inner(), (mend_stream)graph, drop_last, object);
}
