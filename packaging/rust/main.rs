// Mend from Rust, over the simulated device. mend.rs is what bindgen makes of the headers: README.md.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code)]
include!(concat!(env!("MEND_BINDINGS"), "/mend.rs"));

// What MEND_..._INIT is in C: zeros, but for the size.
macro_rules! init {
    ($kind:ty) => {{
        let mut value: $kind = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<$kind>() as _;
        value
    }};
}

fn main() {
    let mut sim = std::ptr::null_mut();
    let mut pool = std::ptr::null_mut();
    let mut block = std::ptr::null_mut();
    let device = init!(mend_sim_config);
    let mut config = init!(mend_pool_config);
    unsafe {
        assert_eq!(mend_sim_create(&device, &mut sim), mend_result_MEND_OK);
        config.driver = mend_sim_driver(sim);
        assert_eq!(mend_pool_create(&config, &mut pool), mend_result_MEND_OK);
        let served = mend_alloc(pool, 3 << 30, std::ptr::null_mut(), &mut block);
        println!("{}", std::ffi::CStr::from_ptr(mend_result_name(served)).to_str().unwrap());
        mend_free(pool, block, std::ptr::null_mut());
        mend_pool_destroy(pool);
        mend_sim_destroy(sim);
    }
}
