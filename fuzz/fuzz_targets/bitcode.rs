//! No bitcode takes down the readers of lint and prove: they read it in a child process first.

#![no_main]

use std::path::PathBuf;

use crashproof_frontend::frameworks::Apis;
use crashproof_frontend::inputs::Bitcode;
use crashproof_frontend::{bitcode, program};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("crashproof-fuzz-{}.bc", std::process::id()));
    std::fs::write(&path, bytes).expect("a file");
    let file = Bitcode { path: path.clone(), given: path.clone(), directory: PathBuf::from("/") };
    if let Err(why) = program::read::read(&[file], &Apis::built_in()) {
        assert!(why.to_string().contains(".bc"), "it names the file: {why}");
    }
    if let Err(why) = bitcode::read(&[(path, bytes.to_owned())]) {
        assert!(why.to_string().contains(".bc"), "it names the file: {why}");
    }
});
