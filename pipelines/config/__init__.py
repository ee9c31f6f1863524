"""What params.yaml may hold: shapes (`schema`), what must agree with what (`rules`), presets (`scales`)."""

from pipelines.config.schema import ParamsError, Run, Settings, check_shapes, load, prefixed

__all__ = ["ParamsError", "Run", "Settings", "check_shapes", "load", "prefixed"]
