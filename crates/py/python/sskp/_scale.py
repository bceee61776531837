"""Actions between [-1, 1], where our policies act, and an environment's own limits."""

import numpy as np


def to_own(action, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """An action within [-1, 1] in the environment's own limits, float64."""
    return low + (np.clip(action, -1.0, 1.0).astype(np.float64) + 1.0) * 0.5 * (high - low)


def to_ours(action: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The other way round, float32."""
    return np.clip(2.0 * (action - low) / (high - low) - 1.0, -1.0, 1.0).astype(np.float32)
