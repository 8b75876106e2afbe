from typing import Any, TypedDict

version: str

class Error(RuntimeError):
    code: str

class Model:
    def signature(
        self,
    ) -> tuple[
        list[tuple[str, int, tuple[Any, ...], int, tuple[Any, ...] | None, bool, int, tuple[int, int], tuple[int, ...] | None]],
        list[tuple[str, int, tuple[Any, ...], int, tuple[Any, ...] | None, bool, int, tuple[int, int], tuple[int, ...] | None]],
    ]: ...
    def save(self, path: str) -> None: ...
    def text(self, name: str) -> str | None: ...
    def invoke(self, inputs: list[tuple[Any, int]], outputs: list[tuple[Any, int]]) -> None: ...
    def set_list(self, index: int, items: list[tuple[Any, int]] | None) -> None: ...
    def list_count(self, index: int) -> int: ...
    def output_shape(self, index: int, item: int = -1) -> tuple[int, ...]: ...
    def copy_output(self, index: int, target: Any, item: int = -1) -> None: ...
    def output_strings(self, index: int, item: int = -1) -> list[bytes]: ...
    def bound_strings(self, index: int, count: int) -> list[bytes]: ...
    def bind(self, output: bool, index: int, pair: tuple[Any, int]) -> None: ...
    def invoke_bound(self) -> None: ...
    def start(self) -> None: ...
    def wait(self) -> None: ...
    def infer_shapes(self, shapes: list[Any]) -> list[tuple[Any, ...]]: ...

    def device_tensor(self, type: int, number: int, code: int, shape: tuple[int, ...]) -> DeviceTensor: ...
    def copy_tensor(self, source: tuple[Any, int], target: tuple[Any, int]) -> None: ...

class DeviceTensor:
    def dlpack(self, versioned: bool) -> Any: ...

class Options(TypedDict, total=False):
    # The table of options, by tools/options.py --update:
    target: str
    dims: list[tuple[str, int]]
    special_dims: list[tuple[str, int]]
    aliases: list[tuple[str, str]]
    capacities: list[tuple[str, int]]
    strided: list[str]
    run_threads: int
    machine: str
    no_measure: bool
    tuned: str
    host: str
    place: list[str]
    memory: list[str]
    annotations: list[tuple[str, str, bool, bool]]
    compile_threads: int
    no_cache: bool
    cache_directory: str
    cache_limit_bytes: int
    direct_convolutions: bool
    fold_defaults: bool
    texts: str
    print_after: str
    schedule: str
    schedule_name: str
    no_schedule: bool
    plain: bool
    vector_bytes: int
    cache_bytes: int
    registers: int
    search_space: int
    # The table's end.

def compile(path: str | None, data: bytes | None, options: Options) -> Model: ...
def address(buffer: Any) -> int: ...
def build_te(folder: str | None, name: str, text: str, kernel: str | None, options: Options) -> tuple[Model, str, str]: ...
def explain_te(folder: str | None, name: str, text: str, kernel: str | None, options: Options) -> dict[str, Any]: ...
def options() -> list[dict[str, Any]]: ...
def load(
    path: str | None,
    data: bytes | None,
    threads: int,
    verify_constants: bool,
    device_map: list[str],
    device_memory: list[str],
    concurrent_islands: bool,
) -> Model: ...
