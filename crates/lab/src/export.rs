//! A trained policy as files that need nothing of this program: a network each as ONNX, and `policy.json`, which says how they are put
//! together. `examples/run_policy.py` plays them with NumPy and onnxruntime alone; `docs/python.md` describes the recipes.

use std::path::Path;

use serde_json::json;
use sskp_blocks::files::PendingFolder;
use sskp_blocks::{Error, Result};

use crate::absent::Absent;
use crate::evaluate::Trained;
use crate::onnx::model;

/// What `policy.json` calls its form.
const FORM: &str = "sskp-policy/1";
const DESCRIPTION: &str = "policy.json";
const NOISE: &str = "noise.npy";

/// Writes the policy into a new folder, which appears whole or not at all. What it gives is the policy's best guess, without noise.
pub fn onnx(trained: &Trained, folder: &Path) -> Result<()> {
    let run = &trained.config.run;
    if folder.exists() {
        return Err(Error::other(format!("{} exists already: name a new folder", folder.display())));
    }
    let portable = trained
        .actor
        .portable()
        .ok_or_else(|| Error::other(format!("{} with these settings cannot be taken apart into networks", run.algo)))?;
    let spec = trained.make_env()?.spec().clone();
    let absent = Absent::read(trained.run())?;
    let limits = |of: fn(&Absent) -> &Vec<f64>, ours: f64| {
        absent.as_ref().map_or_else(|| vec![ours; spec.action_dim], |absent| of(absent).clone())
    };
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(|e| Error::io(parent, e))?;
    let name = folder.file_name().ok_or_else(|| Error::other(format!("{} names no folder", folder.display())))?;
    let pending = PendingFolder::create(folder, &format!(".partial-{}", name.to_string_lossy()))?;
    let mut networks = serde_json::Map::new();
    for network in &portable.networks {
        let (bytes, outputs) = model(network);
        let file = format!("{}.onnx", network.name);
        pending.write(&file, &bytes)?;
        let inputs: Vec<&str> = network.inputs.iter().map(|(name, _)| *name).collect();
        networks.insert(network.name.into(), json!({ "file": file, "inputs": inputs, "outputs": outputs }));
    }
    let mut description = json!({
        "form": FORM,
        "kind": portable.kind,
        "algo": run.algo,
        "env": run.env,
        "seed": run.seed,
        "steps": trained.steps,
        "obs_dim": spec.obs_dim,
        "action_dim": spec.action_dim,
        "dt": spec.dt,
        "action_low": limits(|absent| &absent.action_low, -1.0),
        "action_high": limits(|absent| &absent.action_high, 1.0),
        "networks": networks,
        "recipe": portable.recipe,
    });
    if let Some((shape, numbers)) = &portable.noise {
        pending.write(NOISE, &npy(shape, numbers))?;
        description["recipe"]["noise"] = NOISE.into();
    }
    let text = serde_json::to_string_pretty(&description).expect("plain data") + "\n";
    pending.write(DESCRIPTION, text.as_bytes())?;
    pending.commit()
}

/// An array as NumPy's own format, version 1.0 (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).
fn npy(shape: &[usize], numbers: &[f32]) -> Vec<u8> {
    let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    // The numbers begin at a multiple of 64 bytes.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header = format!("{header:<width$}\n", width = length - 1);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(length as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_begins_where_numpy_looks_for_it() {
        let bytes = npy(&[1, 2, 3], &[1.0; 6]);
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert_eq!(((10 + length) % 64, bytes.len()), (0, 10 + length + 24));
        assert!(std::str::from_utf8(&bytes[10..10 + length]).unwrap().ends_with('\n'));
    }
}
