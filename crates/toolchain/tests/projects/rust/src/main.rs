fn main() {
    assert_eq!(env!("BUILT_BY_SCRIPT"), "1");
    let r = small::record();
    small::intrinsics(r);
    assert_eq!(small::assembly(r), 7);
    if std::is_x86_feature_detected!("pclmulqdq") {
        use std::arch::x86_64::{_mm_cvtsi64_si128, _mm_cvtsi128_si64};
        let product = unsafe { small::carryless(_mm_cvtsi64_si128(3), _mm_cvtsi64_si128(3)) };
        assert_eq!(unsafe { _mm_cvtsi128_si64(product) }, 5);
    }
}
