// Mend from Go, over the simulated device: README.md.
package main

// #cgo pkg-config: mend mend_sim
// #include <mend/mend_sim.h>
import "C"
import (
	"fmt"
	"unsafe"
)

func main() {
	// What MEND_..._INIT is in C: zeros, but for the size.
	device := C.mend_sim_config{struct_size: C.sizeof_mend_sim_config}
	config := C.mend_pool_config{struct_size: C.sizeof_mend_pool_config}
	var sim *C.mend_sim
	var pool *C.mend_pool
	var block unsafe.Pointer
	if C.mend_sim_create(&device, &sim) != C.MEND_OK {
		panic("mend_sim_create")
	}
	config.driver = C.mend_sim_driver(sim)
	if C.mend_pool_create(&config, &pool) != C.MEND_OK {
		panic("mend_pool_create")
	}
	served := C.mend_alloc(pool, 3<<30, nil, &block)
	fmt.Println(C.GoString(C.mend_result_name(served)))
	C.mend_free(pool, block, nil)
	C.mend_pool_destroy(pool)
	C.mend_sim_destroy(sim)
}
