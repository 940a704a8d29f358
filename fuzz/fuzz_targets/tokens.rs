//! No replay token makes its reader panic. The bytes are what a token says, before it is encoded: a fuzzer would not find
//! its way through the encoding.

#![no_main]

use crashproof_check::Token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(token) = Token::decode(&data_encoding::BASE64URL_NOPAD.encode(bytes)) {
        assert!(Token::decode(&token.encode()).is_ok(), "what it writes it reads");
    }
});
