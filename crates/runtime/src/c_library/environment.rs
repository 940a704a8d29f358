//! Records which environment variables the program reads: a replay must provide the same ones.

use std::ffi::{CStr, c_char};

use crate::interpose::replace;
use crate::session::control;

/// Adds a name to the checker's list, if it is new and there is room.
fn note_asked(name: &[u8]) {
    control(|control| {
        let list = &mut control.environment;
        let mut at = 0;
        loop {
            let Some(length) = list[at..].iter().position(|byte| *byte == 0) else { return };
            if length == 0 {
                break;
            }
            if &list[at..at + length] == name {
                return;
            }
            at += length + 1;
        }
        // A zero byte ends the name, a second one the list.
        if let Some(room) = list.get_mut(at..at + name.len() + 2) {
            room[..name.len()].copy_from_slice(name);
        }
    });
}

replace! { [getenv secure_getenv] {
    (name: *const c_char) -> *mut c_char, caller(rsi)
    |_site| {
        note_asked(CStr::from_ptr(name).to_bytes());
        real(name)
    }
} }
