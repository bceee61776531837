"""Between an environment's own form and ours: actions within [-1, 1], observations in one row."""

from typing import Any

import numpy as np


def to_own(action, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """An action within [-1, 1] in the environment's own limits, float64."""
    return low + (np.clip(action, -1.0, 1.0).astype(np.float64) + 1.0) * 0.5 * (high - low)


def to_ours(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The other way round, float32."""
    return np.clip(2.0 * (action - low) / (high - low) - 1.0, -1.0, 1.0).astype(np.float32)


def part_of(observation: Any, path: Any) -> Any:
    """What the keys of a path lead to in an observation of dicts and tuples."""
    value = observation
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError) as error:
            raise TypeError(f"observation: it has no part {list(path)!r} ({error!r})") from None
    return value


def joined(observation: Any, parts: list[dict]) -> np.ndarray:
    """Observations of dicts and tuples in one row, or in rows where every part has one dimension more than an observation's."""
    arrays = [np.asarray(part_of(observation, part["at"]), np.float64) for part in parts]
    rows = [array[None] if array.ndim == len(part["shape"]) else array for array, part in zip(arrays, parts)]
    for array, part in zip(rows, parts):
        if array.shape != (len(rows[0]), *part["shape"]):
            raise ValueError(f"observation: its part {part['at']!r} has the shape {array.shape[1:]} where {tuple(part['shape'])} is needed")
    row = np.concatenate([array.reshape(len(array), -1) for array in rows], 1)
    return row[0] if arrays[0].ndim == len(parts[0]["shape"]) else row
