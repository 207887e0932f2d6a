"""Recording of torch operations as a `torch.fx` graph, over fake tensors: nothing is computed."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from dispatch_runtime.backends._kernel import Kernel
from dispatch_runtime.devices import Device
from dispatch_runtime.errors import ErrorTable
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree


class Recording:
    """What was recorded between the start of a capture and its end.

    `graph` has a placeholder per tensor that was moved onto the capture device, a `get_attr` node per ordinary tensor
    that took part (a weight, say; see `constants`), a call per operation, and returns the tensors that nothing used.
    """

    def __init__(self) -> None:
        self.graph = torch.fx.Graph()
        self.constants: dict[str, torch.Tensor] = {}
        self._fakes = FakeTensorMode()
        self._known: dict[int, tuple[torch.fx.Node, FakeTensor]] = {}
        self._open = True

    @property
    def is_open(self) -> bool:
        """Whether operations are still being recorded."""
        return self._open

    @property
    def module(self) -> torch.fx.GraphModule:
        """The recording as a module: call it on real tensors to compute what was recorded."""
        return torch.fx.GraphModule(dict(self.constants), self.graph)

    def placeholder(self, tensor: torch.Tensor, errors: ErrorTable) -> torch.Tensor:
        """A capture tensor of the same shape and dtype: an input of the graph."""
        fake = self._fakes.from_tensor(tensor.detach())
        return _CaptureTensor(self, fake, self.graph.placeholder(f"input_{len(self.graph.nodes)}"), errors)

    def close(self) -> None:
        """End the recording and give the graph its outputs."""
        self._open = False
        results = tuple(node for node in self.graph.nodes if not node.users and node.op == "call_function")
        self.graph.output(results[0] if len(results) == 1 else results)

    def record(self, func: Any, args: Any, kwargs: Any, errors: ErrorTable) -> Any:
        """Add one operation to the graph; its results are capture tensors."""
        node = self.graph.call_function(func, *pytree.tree_map(self._as_node, (args, kwargs)))
        taken = {id(leaf.fake): leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, _CaptureTensor)}
        with self._fakes:
            result = func(*pytree.tree_map(self._as_fake, args), **pytree.tree_map(self._as_fake, kwargs))
        if not isinstance(result, tuple | list):
            return self._as_capture(result, node, taken, errors)
        items = [self._item(value, node, place, taken, errors) for place, value in enumerate(result)]
        return type(result)(items)

    def _item(self, value: Any, node: torch.fx.Node, place: int, taken: dict[int, Any], errors: ErrorTable) -> Any:
        return self._as_capture(value, self.graph.call_function(operator.getitem, (node, place)), taken, errors)

    def _as_capture(self, value: Any, node: torch.fx.Node, taken: dict[int, Any], errors: ErrorTable) -> Any:
        if not isinstance(value, FakeTensor):
            return value
        written = taken.get(id(value))
        if written is not None:  # an in-place operation gives back what it was given
            written.node = node
            return written
        return _CaptureTensor(self, value, node, errors)

    def _as_node(self, value: Any) -> Any:
        if isinstance(value, _CaptureTensor):
            return value.node
        return self._constant(value)[0] if isinstance(value, torch.Tensor) else value

    def _as_fake(self, value: Any) -> Any:
        if isinstance(value, _CaptureTensor):
            return value.fake
        return self._constant(value)[1] if isinstance(value, torch.Tensor) else value

    def _constant(self, tensor: torch.Tensor) -> tuple[torch.fx.Node, FakeTensor]:
        """The node and the fake of an ordinary tensor; the recording keeps the tensor alive, so its id stays its own."""
        if id(tensor) not in self._known:
            name = f"constant_{len(self.constants)}"
            self.constants[name] = tensor
            node = self.graph.create_node("get_attr", name)
            self._known[id(tensor)] = node, self._fakes.from_tensor(tensor.detach())
        return self._known[id(tensor)]


class _CaptureTensor(torch.Tensor):
    """A tensor without values: operations on it go to its recording."""

    recording: Recording
    fake: FakeTensor
    node: torch.fx.Node
    errors: ErrorTable

    @staticmethod
    def __new__(cls, recording: Recording, fake: FakeTensor, node: torch.fx.Node, errors: ErrorTable) -> _CaptureTensor:
        made: _CaptureTensor = torch.Tensor._make_wrapper_subclass(
            cls, fake.shape, strides=fake.stride(), dtype=fake.dtype, device=fake.device
        )
        made.recording, made.fake, made.node, made.errors = recording, fake, node, errors
        return made

    def __init__(self, *values: Any) -> None:
        super().__init__()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        first = next(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, cls))
        if not first.recording.is_open:
            raise first.errors.make("outside_capture", str(func), "a capture tensor")
        return first.recording.record(func, args, kwargs or {}, first.errors)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"CaptureTensor({self.node}, shape={tuple(self.shape)}, dtype={self.dtype})"


_running: ContextVar[Recording | None] = ContextVar("capture", default=None)


@contextlib.contextmanager
def capture() -> Iterator[Recording]:
    """Record what happens to tensors moved onto the capture device, until the block ends. Captures do not nest."""
    if _running.get() is not None:
        raise RuntimeError("a capture is running already in this thread: captures do not nest")
    recording = Recording()
    token = _running.set(recording)
    try:
        yield recording
    finally:
        _running.reset(token)
        recording.close()


def is_capturing() -> bool:
    """Whether a capture is running in this thread."""
    return _running.get() is not None


class CaptureDevice:
    """Where captures start: `with CaptureDevice.capture() as recording: ...`."""

    capture = staticmethod(capture)
    is_capturing = staticmethod(is_capturing)


class Capture(Kernel):
    """The transfer onto the capture device."""

    def import_tensor(self, tensor: torch.Tensor, source: Device) -> torch.Tensor:
        """A new input of the running capture, with the tensor's shape and dtype; `outside_capture` where none runs."""
        recording = _running.get()
        errors = self.device.package.errors
        if recording is None:
            raise errors.make("outside_capture", "to_device", self.device)
        if isinstance(tensor, _CaptureTensor):
            return tensor
        return recording.placeholder(tensor, errors)
