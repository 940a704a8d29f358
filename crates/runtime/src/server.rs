//! Parks the program before the first of its constructors and forks a child for each command.
//!
//! Programs open their pools in constructors, too, so these run in every child. What must come first is that all
//! modules have registered: the plugin gives each module a constructor for that, and another one, called after
//! those of all modules that are linked together. Where only libraries are instrumented the program is parked just before
//! `main`: `__libc_start_main` is where the C library comes in; ours stands before it and puts its own `main` in the
//! program's place.

use std::ffi::{CStr, c_char, c_int, c_void};

use crashproof_protocol::{PARKED, RUN, fd};

use crate::{globals, process, processors, session, sites};

/// [`crashproof_protocol::ENVIRONMENT`] as C wants it.
const ENVIRONMENT_NAME: &CStr = c"CRASHPROOF_SESSION";
const _: () = assert!(ENVIRONMENT_NAME.count_bytes() == crashproof_protocol::ENVIRONMENT.len());

/// [`fd::INPUT`] as a path.
const INPUT_PATH: &CStr = c"/proc/self/fd/906";
const _: () = assert!(fd::INPUT == 906);

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type StartMain = unsafe extern "C" fn(
    Main,
    c_int,
    *mut *mut c_char,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

static mut PROGRAM_MAIN: Option<Main> = None;

/// Runs before the constructors of whatever is linked against the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = {
    extern "C" fn start() {
        session::start();
    }
    start
};

#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_start_main(
    main: Main,
    argc: c_int,
    argv: *mut *mut c_char,
    init: *mut c_void,
    fini: *mut c_void,
    rtld_fini: *mut c_void,
    stack_end: *mut c_void,
) -> c_int {
    let real = libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr());
    if real.is_null() {
        session::give_up("the C library has no __libc_start_main");
    }
    let real: StartMain = std::mem::transmute(real);
    PROGRAM_MAIN = Some(main);
    real(our_main, argc, argv, init, fini, rtld_fini, stack_end)
}

unsafe extern "C" fn our_main(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) -> c_int {
    if is_to_park() {
        park();
    }
    match PROGRAM_MAIN {
        Some(main) => main(argc, argv, envp),
        None => session::give_up("main is missing"),
    }
}

/// All modules that are linked together with this one have registered.
pub(crate) unsafe fn registered(module: *const c_void) {
    // Every module says so in every child: looking them up there would cost as much as a recovery.
    if is_to_park() && sites::linked_together(module, libc::getauxval(libc::AT_PHDR) as *const c_void) {
        park();
    }
}

/// Was the program parked before? Children come out of that.
static mut PARKED_BEFORE: bool = false;

unsafe fn is_to_park() -> bool {
    session::UNDER_CHECKER && !PARKED_BEFORE
}

/// Serves commands for ever; returns in the children.
unsafe fn park() {
    PARKED_BEFORE = true;
    process::prepare_parent();
    processors::note();
    let control = &mut *session::CONTROL;
    control.modules = sites::modules();
    control.pm_used = u32::from(globals::any());
    control.sites_bytes = sites::write_table();
    send(&[PARKED]);
    loop {
        let mut command = 0u8;
        match libc::read(fd::COMMAND, (&raw mut command).cast(), 1) {
            1 if command == RUN => {}
            // The checker is gone.
            _ => libc::_exit(0),
        }
        session::find_trace();
        let child = libc::fork();
        if child < 0 {
            session::give_up("cannot fork");
        }
        if child == 0 {
            prepare_child();
            return;
        }
        send(&child.to_le_bytes());
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) < 0 {}
        // Whatever it started goes with it.
        libc::kill(-child, libc::SIGKILL);
        process::end_orphans();
        process::note_ending(status);
        send(&status.to_le_bytes());
    }
}

unsafe fn send(bytes: &[u8]) {
    if libc::write(fd::COMMAND, bytes.as_ptr().cast(), bytes.len()) != bytes.len() as isize {
        libc::_exit(0);
    }
}

unsafe fn prepare_child() {
    libc::setpgid(0, 0);
    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    // Opened anew, since all descriptors that come from one `open` share a position.
    let mut input = libc::open(INPUT_PATH.as_ptr(), libc::O_RDONLY);
    if input < 0 {
        input = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
    }
    libc::dup2(input, 0);
    libc::close(input);
    libc::dup2(fd::OUTPUT, 1);
    libc::dup2(fd::OUTPUT, 2);
    let seconds = u64::from((*session::CONTROL).max_cpu_seconds);
    if seconds > 0 {
        let limit = libc::rlimit { rlim_cur: seconds, rlim_max: seconds + 1 };
        libc::setrlimit(libc::RLIMIT_CPU, &raw const limit);
    }
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
    process::limit_memory();
    process::limit_files();
    // A program that this one starts is none of the checker's business.
    libc::unsetenv(ENVIRONMENT_NAME.as_ptr());
    // The mappings stay; the descriptors would only be in the program's way.
    for descriptor in [fd::CONTROL, fd::IMAGE, fd::TRACE, fd::COMMAND, fd::SITES, fd::OUTPUT, fd::INPUT] {
        libc::close(descriptor);
    }
    session::become_child();
}
