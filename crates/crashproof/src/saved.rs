//! Failures saved below `.crashproof/`: a short id for each replay token, and its report.
//!
//! `check` writes them, `replay` reads them. The directory belongs to its project, and everything in it can be
//! regenerated.

use std::hash::Hasher;
use std::path::{Path, PathBuf};

use crashproof_findings::{Finding, Report, Role};
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};

const DIRECTORY: &str = ".crashproof";

/// A saved failure.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The replay token.
    pub(crate) token: String,
    /// The reported title.
    pub(crate) title: String,
    pub(crate) cause: String,
    pub(crate) fix: String,
    pub(crate) lost: Vec<Access>,
    pub(crate) survived: Vec<Access>,
    pub(crate) reads: Vec<Access>,
}

/// A store, or a read of recovery.
#[derive(Serialize, Deserialize)]
pub(crate) struct Access {
    place: String,
    message: String,
    /// Address and bytes.
    detail: String,
    /// Is it one of the few that the report shows in the source?
    pub(crate) main: bool,
}

impl Access {
    /// As a line, for those who did not ask for addresses.
    pub(crate) fn brief(&self) -> String {
        format!("{}: {}", self.place, self.message)
    }

    /// As a line with address and bytes, for a debugger.
    pub(crate) fn whole(&self) -> String {
        match self.detail.as_str() {
            "" => self.brief(),
            detail => format!("{} ({detail})", self.brief()),
        }
    }
}

impl Saved {
    fn of(finding: &Finding) -> Saved {
        let accesses = |role: Role| {
            let of_role = finding.related.iter().filter(move |related| related.role == role);
            of_role
                .map(|related| Access {
                    place: format!("{}:{}", related.place.file, related.place.line),
                    message: related.message.clone(),
                    detail: related.detail.clone(),
                    main: related.main,
                })
                .collect()
        };
        Saved {
            token: finding.replay.clone(),
            title: finding.message.clone(),
            cause: finding.cause.as_ref().map(|cause| cause.message.clone()).unwrap_or_default(),
            fix: finding.fix.as_ref().map(|fix| fix.message.clone()).unwrap_or_default(),
            lost: accesses(Role::Lost),
            survived: accesses(Role::Survived),
            reads: accesses(Role::Read),
        }
    }
}

/// Saves every failure of a report that can be replayed, and records its id in the finding. If that is impossible, the
/// report contains the complete tokens.
pub(crate) fn keep(report: &mut Report) {
    let mut directory = None;
    for finding in report.findings.iter_mut().filter(|finding| !finding.replay.is_empty()) {
        let Some(directory) = directory.get_or_insert_with(create).as_deref() else { return };
        let mut hasher = FxHasher::default();
        hasher.write(finding.replay.as_bytes());
        let id = format!("{:08x}", (hasher.finish() >> 32) as u32);
        let json = serde_json::to_vec_pretty(&Saved::of(finding)).expect("plain data always serializes");
        if std::fs::write(directory.join(format!("{id}.json")), json).is_ok() {
            finding.extra.insert("replay_id".into(), id.into());
        }
    }
}

fn create() -> Option<PathBuf> {
    let directory = Path::new(DIRECTORY).join("replay");
    std::fs::create_dir_all(&directory).ok()?;
    let ignored = Path::new(DIRECTORY).join(".gitignore");
    if !ignored.exists() {
        std::fs::write(ignored, "*\n").ok()?;
    }
    Some(directory)
}

/// The failure with this id, saved here or in a parent directory.
pub(crate) fn find(id: &str) -> Option<Saved> {
    if id.len() != 8 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let here = std::env::current_dir().ok()?;
    let file = |above: &Path| above.join(DIRECTORY).join("replay").join(format!("{id}.json"));
    let text = here.ancestors().find_map(|above| std::fs::read(file(above)).ok())?;
    serde_json::from_slice(&text).ok()
}
