//! What `fix --apply` last changed, saved next to the sources so that it can be undone.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::edit::write;
use crate::fixer::Changed;

/// Where it is kept. The directory ignores itself in version control.
const DIRECTORY: &str = ".crashproof";
const FILE: &str = "undo.json";

#[derive(Serialize, Deserialize)]
struct Kept {
    file: String,
    before: String,
    after: String,
}

/// Remembers what is about to be written.
pub(crate) fn remember(root: &Path, changed: &[Changed]) -> Result<(), String> {
    let unable = |error: std::io::Error| format!("cannot keep what is needed to undo it: {error}");
    let directory = root.join(DIRECTORY);
    std::fs::create_dir_all(&directory).map_err(unable)?;
    std::fs::write(directory.join(".gitignore"), "*\n").map_err(unable)?;
    let kept: Vec<Kept> = changed
        .iter()
        .map(|it| Kept { file: it.file.clone(), before: it.before.clone(), after: it.after.clone() })
        .collect();
    let text = serde_json::to_string(&kept).map_err(|error| error.to_string())?;
    std::fs::write(directory.join(FILE), text).map_err(unable)
}

/// Restores what the last fix changed; the files. Nothing is changed if one of them was edited since.
pub fn undo(root: &Path) -> Result<Vec<String>, String> {
    let kept = root.join(DIRECTORY).join(FILE);
    let text = std::fs::read_to_string(&kept)
        .map_err(|_| "nothing to undo: no fix was applied in this directory".to_owned())?;
    let all: Vec<Kept> =
        serde_json::from_str(&text).map_err(|error| format!("{} is damaged: {error}", kept.display()))?;
    let inside = root.canonicalize().map_err(|error| error.to_string())?;
    for one in &all {
        let path = root.join(&one.file);
        let found = path.canonicalize().map_err(|error| format!("cannot read {}: {error}", one.file))?;
        if !found.starts_with(&inside) {
            return Err(format!("{} is outside the project directory, where nothing is changed", one.file));
        }
        let now =
            std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", one.file))?;
        if now != one.after {
            return Err(format!("{} was changed since it was fixed; nothing was restored", one.file));
        }
    }
    for one in &all {
        write(&root.join(&one.file), &one.before)
            .map_err(|error| format!("cannot write {}: {error}", one.file))?;
    }
    std::fs::remove_file(&kept).map_err(|error| error.to_string())?;
    Ok(all.into_iter().map(|one| one.file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_restored_unless_it_was_edited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.c");
        let changed = Changed { file: "a.c".into(), before: "old".into(), after: "new".into() };
        assert!(undo(directory.path()).is_err(), "nothing was applied");
        remember(directory.path(), std::slice::from_ref(&changed)).unwrap();
        std::fs::write(&path, "edited").unwrap();
        assert!(undo(directory.path()).unwrap_err().contains("changed since"));
        std::fs::write(&path, "new").unwrap();
        assert_eq!(undo(directory.path()).unwrap(), ["a.c"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        let outside = Changed { file: "../a.c".into(), ..changed };
        std::fs::create_dir(directory.path().join("b")).unwrap();
        std::fs::write(&path, "new").unwrap();
        remember(&directory.path().join("b"), &[outside]).unwrap();
        assert!(undo(&directory.path().join("b")).unwrap_err().contains("outside"));
    }
}
