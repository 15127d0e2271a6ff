"""torch.backends."""

from . import cudnn  # noqa: F401
