"""The data on the torch API: its grammar, the choice between overloads, and that torch really behaves as it says."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalint.analysis import torch_api
from dynalint.analysis.torch_api import ApiEntry, parse_overload
from dynalint.analysis.torch_kinds import ApiKind, parse_kind, union

ROOT = Path(__file__).parents[2]
TENSOR = ["tensor"]


def function(name: str) -> ApiEntry:
    found = torch_api.function(name)
    assert found is not None, name
    return found


def method(name: str) -> ApiEntry:
    found = torch_api.method(name)
    assert found is not None, name
    return found


class TestKinds:
    @pytest.mark.parametrize(
        "text",
        [
            "tensor",
            "tensor:bifc",
            "tensor:iif-@0",
            "data:float",
            "data",
            "python:memory_format",
            "size",
            "module:torch.nn.Linear",
            "(tensor:bif-,tensor:iii-)",
            "(values=tensor:bif-,indices=tensor:iii-)",
            "(tensor...)",
            "(tensor:--f-,(tensor:--f-,tensor:--f-))",
            "<(python:str,tensor)>",
            "{[callable]}",
            "tensor|none",
            "(tensor,tensor|none)",
            "(object:torch.nn.utils.rnn.PackedSequence,tensor|none)",
            "python:int|(python:int...)",
            "()",
        ],
    )
    def test_spelling_reads_back(self, text: str) -> None:
        assert str(parse_kind(text)) == text

    @pytest.mark.parametrize("text", ["", "tensr", "(tensor", "[tensor", "tensor)", "tensor,tensor"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="kind"):
            parse_kind(text)

    @pytest.mark.parametrize(
        ("letters", "dtype"),
        [
            ("bbbb", "bool"),
            ("iii-", "int"),
            ("--f-", "float"),
            ("bifc", "same"),
            ("-if-", "same"),
            ("iifc", None),
            ("????", None),
        ],
    )
    def test_dtype_class(self, letters: str, dtype: str | None) -> None:
        assert parse_kind(f"tensor:{letters}").dtype == dtype

    def test_dtype_for_a_class_of_arguments(self) -> None:
        total = parse_kind("tensor:iif-")
        assert [total.dtype_for(one) for one in ("bool", "int", "float", "complex", None)] == [
            "int",
            "int",
            "float",
            None,
            None,
        ]
        assert parse_kind("tensor:bb--").dtype_for(None) == "bool"

    def test_union_of_tensors_keeps_what_holds_for_all(self) -> None:
        assert str(union([parse_kind("tensor:bif-@0"), parse_kind("tensor:iifc@0")])) == "tensor:?ifc@0"
        assert str(union([parse_kind("tensor@0"), parse_kind("tensor"), parse_kind("none")])) == "tensor|none"
        assert union([parse_kind("tensor"), parse_kind("unknown")]) == ApiKind("unknown")


class TestOverloads:
    def test_letters_literals_and_defaults(self) -> None:
        overload = parse_overload("input:T,reduction:'mean''sum'=,*,dim:?I=,flag:t->tensor@0!random mutating")
        assert overload.flags == {"random", "mutating"}
        assert overload.accepts(["tensor"], {"flag": "true"})
        assert overload.accepts(["unknown", "str:sum"], {"flag": "bool", "dim": "none"})
        assert overload.accepts(["tensor", "str"], {"flag": "unknown", "out": "tensor"})
        assert not overload.accepts(["tensor", "str:none"], {"flag": "true"})
        assert not overload.accepts(["tensor"], {"flag": "false"})
        assert not overload.accepts(["tensor"], {})
        assert not overload.accepts(["int"], {"flag": "true"})
        assert not overload.accepts(["tensor"], {"flag": "true", "other": "int"})
        assert not overload.accepts(["tensor", "str:sum", "int"], {"flag": "true"})
        assert not overload.accepts(["tensor"], {"flag": "true", "input": "tensor"})

    def test_further_arguments(self) -> None:
        overload = parse_overload("*size:I->tensor")
        assert overload.accepts(["int", "dim", "unknown"], {})
        assert not overload.accepts(["int", "other"], {})

    def test_chosen_by_the_kinds_of_arguments(self) -> None:
        largest = method("max")
        assert str(largest.returns()) == "tensor:bif-@0"
        assert largest.returns(["int"]).fields == ("values", "indices")
        assert largest.returns([], {"dim": "int"}).fields == ("values", "indices")
        assert largest.resolve(TENSOR).flags == {"elementwise"}
        assert largest.returns(["unknown"]).name == "union"
        assert largest.returns([], starred=True).name == "union"

    def test_chosen_by_the_number_of_arguments(self) -> None:
        assert function("torch.where").resolve(["tensor"]).flags == {"dynamic_shape"}
        assert function("torch.where").resolve(["tensor"] * 3).flags == {"elementwise"}
        assert method("size").returns().name == "size"
        assert method("size").returns(["int"]).name == "dim"

    def test_hints_that_fit_nothing_leave_the_names(self) -> None:
        assert method("max").returns([], {"dim": "str"}).fields == ("values", "indices")

    def test_out_changes_an_argument(self) -> None:
        assert "mutating" not in function("torch.add").resolve(["tensor", "tensor"]).flags
        assert "mutating" in function("torch.add").resolve(["tensor", "tensor"], {"out": "tensor"}).flags

    def test_a_dtype_given_leaves_the_dtype_open(self) -> None:
        assert method("sum").returns([], {"dtype": "other"}).dtype is None
        assert method("to").returns(["str"]).dtype == "same"
        assert method("to").returns(["other"]).dtype is None
        assert method("to").returns(["str", "other"]).dtype is None


class TestLookUp:
    @pytest.mark.parametrize(
        ("alias", "canonical"),
        [
            ("torch.nn.functional.conv2d", "torch.conv2d"),
            ("torch.functional.einsum", "torch.einsum"),
            ("torch.nn.modules.linear.Linear", "torch.nn.Linear"),
            ("torch.nn.modules.Linear", "torch.nn.Linear"),
            ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
            ("torch.distributions.normal.Normal", "torch.distributions.Normal"),
            ("torch.autograd.no_grad", "torch.no_grad"),
            ("torch.relu", "torch.relu"),
            ("no.such.name", "no.such.name"),
        ],
    )
    def test_aliases(self, alias: str, canonical: str) -> None:
        assert torch_api.canonical(alias) == canonical

    def test_unknown_names(self) -> None:
        assert torch_api.function("torch.nothing") is None
        assert torch_api.method("nothing") is None
        assert torch_api.attribute("nothing") is None
        assert torch_api.torch_class("torch.Nothing") is None
        assert torch_api.constant("torch.nothing") is None

    def test_look_up_is_cached(self) -> None:
        assert function("torch.nn.functional.relu") is function("torch.nn.functional.relu")
        assert method("max") is method("max")

    def test_every_entry_can_be_read(self) -> None:
        data = torch_api._data()
        for name in data["functions"]:
            assert function(name).overloads
        for name, record in data["classes"].items():
            cls = torch_api.torch_class(name)
            assert cls is not None
            assert all(cls.method(one) for one in record.get("methods", ()))
            assert all(cls.attribute(one) for one in record.get("attributes", ()))
            assert all(base in data["classes"] for base in record.get("bases", ()))
        assert all(torch_api.constant(name) for name in data["constants"])
        targets = {*data["functions"], *data["classes"], *data["constants"]}
        assert set(torch_api._aliases().values()) <= targets

    def test_file_is_small(self) -> None:
        path = Path(torch_api.__file__).parent.parent / "data" / "torch_api.json"
        assert path.stat().st_size < 400_000  # read in some 6 ms

    def test_loading_imports_no_torch(self) -> None:
        code = (
            "import sys; from dynalint.analysis import torch_api as a; a.function('torch.max'); "
            "assert not {'torch', 'numpy', 'libcst'} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


class TestClasses:
    def test_modules(self) -> None:
        linear = torch_api.torch_class("torch.nn.Linear")
        assert linear is not None
        assert linear.is_module
        assert str(linear.instance) == "module:torch.nn.Linear"
        assert linear.call is not None
        assert linear.call.returns(TENSOR).name == "tensor"
        assert str(linear.attribute("weight")) == "tensor"
        assert str(linear.attribute("bias")) == "tensor|none"
        assert str(linear.attribute("in_features")) == "python:int"
        assert str(linear.attribute("training")) == "python:bool"

    def test_recurrent_layers_return_tuples(self) -> None:
        lstm, gru = (torch_api.torch_class(f"torch.nn.{name}") for name in ("LSTM", "GRU"))
        assert lstm is not None
        assert gru is not None
        assert lstm.call is not None
        assert gru.call is not None
        assert str(lstm.call.returns(TENSOR)) == "(tensor:--f-,(tensor:--f-,tensor:--f-))"
        assert str(gru.call.returns(TENSOR)) == "(tensor:--f-,tensor:--f-)"

    def test_methods_of_every_module(self) -> None:
        cls = torch_api.torch_class("torch.nn.Conv2d")
        assert cls is not None
        kinds = {name: cls.method(name) for name in ("parameters", "named_modules", "state_dict", "to", "zero_grad")}
        assert {name: str(entry.returns()) for name, entry in kinds.items() if entry is not None} == {
            "parameters": "<tensor>",
            "named_modules": "<(python:str,module)>",
            "state_dict": "{tensor}",
            "to": "self",
            "zero_grad": "none",
        }

    def test_distributions(self) -> None:
        normal = torch_api.torch_class("torch.distributions.Normal")
        assert normal is not None
        assert normal.ancestors[-1] == "torch.distributions.Distribution"
        sample = normal.method("sample")
        assert sample is not None
        assert sample.flags == {"random"}
        assert sample.returns().name == "tensor"
        assert {str(normal.attribute(name)) for name in ("mean", "stddev", "loc")} == {"tensor"}
        assert str(normal.attribute("batch_shape")) == "size"

    @pytest.mark.parametrize(
        ("name", "instance"),
        [
            ("torch.nn.Parameter", "tensor"),
            ("torch.Tensor", "tensor"),
            ("torch.Size", "size"),
            ("torch.device", "python:device"),
            ("torch.Generator", "object:torch.Generator"),
            ("torch.nn.Module", "module:torch.nn.Module"),
        ],
    )
    def test_instances(self, name: str, instance: str) -> None:
        cls = torch_api.torch_class(name)
        assert cls is not None
        assert str(cls.instance) == instance


class TestFlags:
    """What the sets hold and what they must not hold; torch itself is asked in TestAgainstTorch."""

    @pytest.mark.parametrize(
        ("flag", "inside", "outside"),
        [
            (
                "dynamic_shape",
                "nonzero unique unique_consecutive masked_select argwhere bincount repeat_interleave where",
                "sort topk gather cat sum max arange split nn.functional.softmax",
            ),
            (
                "data_dependent",
                (
                    "equal allclose is_nonzero Tensor.item Tensor.tolist Tensor.__bool__ Tensor.__int__ Tensor.__float__ "
                    "Tensor.equal nn.functional.gaussian_nll_loss"
                ),
                "add is_floating_point numel Tensor.size Tensor.dim Tensor.is_contiguous Tensor.numel isnan any",
            ),
            (
                "random",
                (
                    "rand randn rand_like randint randperm bernoulli multinomial normal nn.functional.dropout "
                    "Tensor.uniform_ Tensor.normal_ nn.Dropout.forward nn.init.xavier_uniform_ distributions.Beta.sample"
                ),
                "zeros add nn.Linear.forward nn.functional.linear nn.BatchNorm2d.forward nn.LazyLinear.forward",
            ),
            (
                "mutating",
                (
                    "Tensor.add_ Tensor.fill_ Tensor.copy_ Tensor.__setitem__ Tensor.__iadd__ nn.functional.relu "
                    "nn.init.zeros_ Tensor.requires_grad_ relu_ nn.utils.clip_grad_norm_"
                ),
                "add Tensor.add Tensor.to Tensor.view sort Tensor.__add__ Tensor.contiguous",
            ),
            (
                "elementwise",
                (
                    "add sub mul div exp sqrt where clamp relu sigmoid nn.functional.gelu isnan isfinite Tensor.__gt__ "
                    "Tensor.float Tensor.masked_fill Tensor.detach nn.functional.hardswish Tensor.__rsub__ nn.ReLU.forward"
                ),
                "sum softmax matmul cumsum outer sort equal bernoulli mean flip nn.functional.softmax nn.Linear.forward",
            ),
            (
                "partial_domain",
                "sqrt log div pow rsqrt acos log1p reciprocal exp Tensor.sqrt Tensor.__truediv__ Tensor.sqrt_ lgamma",
                "add mul relu sigmoid tanh abs sin cos where clamp nn.functional.gelu nn.functional.softplus",
            ),
        ],
    )
    def test_members(self, flag: torch_api.Flag, inside: str, outside: str) -> None:
        found = torch_api.flagged(flag)
        assert {f"torch.{name}" for name in inside.split()} <= found
        assert not {f"torch.{name}" for name in outside.split()} & found

    def test_what_dynamo_does_not_trace(self) -> None:
        found = torch_api.untraced()
        refused = "Tensor.storage_offset Tensor.resize_ Tensor.to_sparse Tensor.is_shared result_type cuda.device_count"
        assert {f"torch.{name}" for name in refused.split()} <= found.keys()
        traced = "Tensor.add Tensor.stride Tensor.is_contiguous is_tensor nonzero cuda.is_available Tensor.item equal"
        assert not {f"torch.{name}" for name in traced.split()} & found.keys()
        assert found["torch.result_type"] == "GB0208"

    def test_flags_are_those_of_the_call(self) -> None:
        dropout = function("torch.nn.functional.dropout")
        assert dropout.resolve(["tensor", "float"], {"training": "false"}).flags == {"elementwise"}
        assert "random" in dropout.resolve(["tensor", "float"], {"training": "bool"}).flags
        attention = function("torch.nn.functional.scaled_dot_product_attention")
        assert attention.resolve(["tensor"] * 3, {"is_causal": "true"}).flags == frozenset()
        assert attention.resolve(["tensor"] * 3, {"dropout_p": "float"}).flags == {"random"}
        one_hot = function("torch.nn.functional.one_hot")
        assert one_hot.resolve(["tensor"]).flags == {"data_dependent"}
        assert one_hot.resolve(["tensor", "int"]).flags == frozenset()

    def test_names_that_give_a_tensor_away(self) -> None:
        names = torch_api.tensor_only()
        telling = "view permute unsqueeze size masked_fill softmax transpose contiguous reshape requires_grad argmax"
        assert set(telling.split()) <= names
        common = (
            "to device dtype data type cuda cpu values indices names name grad mean keys T apply_ shape split index"
        )
        assert not set(common.split()) & names


def _observed(value: Any) -> str:
    """Word a real result as coarsely as `_foretold` words a kind."""
    import torch

    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, torch.Size) or (isinstance(value, tuple) and {type(one) for one in value} == {int}):
        return "size"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__ if type(value) is list else 'tuple'}({','.join(map(_observed, value))})"
    return type(value).__name__


def _foretold(kind: ApiKind, length: int) -> str:
    if kind.name == "tuple":
        items = kind.items * length if kind.variadic else kind.items
        return f"tuple({','.join(_foretold(item, length) for item in items)})"
    if kind.name == "list":
        return f"list({','.join([_foretold(kind.items[0], length)] * length)})"
    if kind.name == "self":
        return "tensor"
    if kind.name == "dim":
        return "int"
    return {"none": "NoneType", "array": "ndarray"}.get(kind.name, kind.type or kind.name)


# An expression over x (float, 3 by 4), n (int, 3 by 4), m (bool, 3 by 4), v (float, 4); the hints of its call.
CALLS: list[tuple[str, list[str], dict[str, str]]] = [
    ("torch.add(x, n)", ["tensor"] * 2, {}),
    ("torch.isnan(x)", ["tensor"], {}),
    ("torch.argmax(x)", ["tensor"], {}),
    ("torch.sum(m)", ["tensor"], {}),
    ("torch.sum(x, 1)", ["tensor", "int"], {}),
    ("torch.mean(x)", ["tensor"], {}),
    ("torch.std(x)", ["tensor"], {}),
    ("torch.any(n, dim=0)", ["tensor"], {"dim": "int"}),
    ("torch.max(x)", ["tensor"], {}),
    ("torch.max(x, 0)", ["tensor", "int"], {}),
    ("torch.max(x, x)", ["tensor"] * 2, {}),
    ("torch.sqrt(n)", ["tensor"], {}),
    ("torch.div(n, 2)", ["tensor", "int"], {}),
    ("torch.where(m)", ["tensor"], {}),
    ("torch.where(m, x, n)", ["tensor"] * 3, {}),
    ("torch.unique(n)", ["tensor"], {}),
    ("torch.unique(n, return_inverse=True)", ["tensor"], {"return_inverse": "true"}),
    (
        "torch.unique(n, return_counts=True, return_inverse=True)",
        ["tensor"],
        dict.fromkeys(("return_counts", "return_inverse"), "true"),
    ),
    ("torch.sort(x)", ["tensor"], {}),
    ("torch.topk(x, 2)", ["tensor", "int"], {}),
    ("torch.std_mean(x)", ["tensor"], {}),
    ("torch.split(x, 2)", ["tensor", "int"], {}),
    ("torch.unbind(x)", ["tensor"], {}),
    ("torch.meshgrid(v, v, indexing='ij')", ["tensor"] * 2, {"indexing": "str:ij"}),
    ("torch.equal(x, x)", ["tensor"] * 2, {}),
    ("torch.allclose(x, x)", ["tensor"] * 2, {}),
    ("torch.numel(x)", ["tensor"], {}),
    ("torch.is_tensor(x)", ["tensor"], {}),
    ("torch.is_floating_point(x)", ["tensor"], {}),
    ("torch.is_grad_enabled()", [], {}),
    ("torch.broadcast_shapes((2, 1), (3,))", ["sequence"] * 2, {}),
    ("torch.result_type(x, n)", ["tensor"] * 2, {}),
    ("torch.arange(3)", ["int"], {}),
    ("torch.arange(0.0, 1.0)", ["float"] * 2, {}),
    ("torch.zeros(2, 3)", ["int"] * 2, {}),
    ("torch.tensor(1.5)", ["float"], {}),
    ("torch.einsum('ij,kj->ik', x, x)", ["str", "tensor", "tensor"], {}),
    ("torch.searchsorted(v, x)", ["tensor"] * 2, {}),
    ("torch.gather(n, 0, n * 0)", ["tensor", "int", "tensor"], {}),
    ("torch.linalg.qr(x)", ["tensor"], {}),
    ("torch.linalg.norm(x)", ["tensor"], {}),
    ("torch.fft.rfft(x)", ["tensor"], {}),
    ("torch.special.expit(n)", ["tensor"], {}),
    ("torch.nn.functional.relu(x)", ["tensor"], {}),
    ("torch.nn.functional.softmax(x, 1)", ["tensor", "int"], {}),
    ("torch.nn.functional.max_pool2d(x[None], 2)", ["tensor", "int"], {}),
    ("torch.nn.functional.max_pool2d(x[None], 2, return_indices=True)", ["tensor", "int"], {"return_indices": "true"}),
    ("torch.nn.functional.mse_loss(x, x)", ["tensor"] * 2, {}),
    ("torch.nn.functional.mse_loss(x, x, reduction='none')", ["tensor"] * 2, {"reduction": "str:none"}),
    ("torch.nn.functional.one_hot(n, 20)", ["tensor", "int"], {}),
    ("torch.nn.functional.embedding(n, x.new_ones(20, 2))", ["tensor"] * 2, {}),
    ("torch.nn.init.zeros_(x)", ["tensor"], {}),
    ("torch.nn.utils.rnn.pad_sequence([v, v])", ["sequence"], {}),
    ("x.size()", [], {}),
    ("x.size(0)", ["int"], {}),
    ("x.dim()", [], {}),
    ("x.stride()", [], {}),
    ("x.is_contiguous()", [], {}),
    ("x.argmin()", [], {}),
    ("x.__gt__(0)", ["int"], {}),
    ("x.__len__()", [], {}),
    ("x.split(2)", ["int"], {}),
    ("x.chunk(2)", ["int"], {}),
    ("x.std()", [], {}),
    ("x.min(dim=1)", [], {"dim": "int"}),
    ("x.long()", [], {}),
    ("x.half()", [], {}),
    ("n.float()", [], {}),
    ("x.add_(1)", ["int"], {}),
    ("x.view(-1)", ["int"], {}),
    ("x.masked_fill(m, 0.0)", ["tensor", "float"], {}),
    ("x.numpy()", [], {}),
    ("x.nonzero(as_tuple=True)", [], {"as_tuple": "true"}),
    ("x.type()", [], {}),
    ("x.is_nonzero", [], {}),
]


@pytest.mark.dynamo
class TestAgainstTorch:
    """Every claim that is checked here is one that torch itself makes true."""

    @staticmethod
    def _values() -> dict[str, Any]:
        torch = pytest.importorskip("torch")
        x = torch.arange(12.0).reshape(3, 4)
        return {"torch": torch, "x": x, "n": x.long(), "m": x > 4, "v": torch.arange(4.0)}

    @pytest.mark.parametrize(("expression", "positional", "keywords"), CALLS[:-1], ids=[one[0] for one in CALLS[:-1]])
    def test_call(self, expression: str, positional: list[str], keywords: dict[str, str]) -> None:
        values = self._values()
        name = expression.partition("(")[0]
        entry = function(name) if name.startswith("torch.") else method(name.partition(".")[2])
        kind = entry.returns(positional, keywords)
        result = eval(expression, values)
        assert _foretold(kind, len(result) if isinstance(result, (tuple, list)) else 1) == _observed(result)
        if kind.name == "tensor":
            used = {"x": "float", "v": "float", "n": "int", "m": "bool"}
            classes = [used[one] for one in re.findall(r"\b[xvnm]\b", expression)]
            highest = max(classes, key=["bool", "int", "float"].index, default=None)
            self._check_tensor(kind, result, highest)

    @staticmethod
    def _check_tensor(kind: ApiKind, result: Any, argument: Any) -> None:
        dtype = kind.dtype_for(argument)
        if dtype is not None:
            is_float, is_bool = result.is_floating_point(), str(result.dtype) == "torch.bool"
            actual = "complex" if result.is_complex() else "float" if is_float else "bool" if is_bool else "int"
            assert dtype == actual
        if kind.rank0:
            assert result.ndim == 0

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("shape", "size"),
            ("dtype", "python:dtype"),
            ("device", "python:device"),
            ("ndim", "dim"),
            ("T", "tensor:bifc"),
            ("mT", "tensor:bifc"),
            ("data", "tensor:bifc"),
            ("is_cuda", "python:bool"),
            ("requires_grad", "python:bool"),
            ("grad", "none|tensor"),
            ("real", "tensor:biff"),
        ],
    )
    def test_attributes_of_tensors(self, name: str, kind: str) -> None:
        assert str(torch_api.attribute(name)) == kind
        assert hasattr(self._values()["x"], name)

    def test_every_public_method_of_tensors_is_known(self) -> None:
        torch = pytest.importorskip("torch")
        names = {name for name in dir(torch.Tensor) if not name.startswith("_")}
        missing = {name for name in names if torch_api.method(name) is None and torch_api.attribute(name) is None}
        assert missing <= {"as_subclass", "index", "const_data_ptr", "ipu", "mtia", "backward", "register_hook", "register_post_accumulate_grad_hook",
                           "storage_type", "reinforce", "eig", "lstsq", "symeig", "solve", "dequantize", "qscheme", "name",
                           "names", "align_to", "refine_names", "rename", "rename_", "unflatten", "is_shared", "cfloat",
                           "align_as", "has_names"}  # fmt: skip

    def test_in_place_methods_return_their_receiver(self) -> None:
        values = self._values()
        for name in ("add_", "clamp_", "zero_", "relu_", "masked_fill_", "requires_grad_", "squeeze_"):
            arguments = {"add_": (1,), "clamp_": (0.0,), "masked_fill_": (values["m"], 1.0)}.get(name, ())
            receiver = values["x"].clone()
            assert getattr(receiver, name)(*arguments) is receiver
            assert method(name).returns(["unknown"] * len(arguments)).name == "self"

    @pytest.mark.parametrize("name", ["sqrt", "log", "rsqrt", "acos", "reciprocal", "log1p"])
    def test_partial_domain(self, name: str) -> None:
        torch = pytest.importorskip("torch")
        x = torch.tensor([0.0, -2.0, 0.5], requires_grad=True)
        y: Any = getattr(torch, name)(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert not (y.isfinite().all() and gradient.isfinite().all())
        assert f"torch.{name}" in torch_api.flagged("partial_domain")

    @pytest.mark.parametrize(
        ("name", "build", "arguments"),
        [
            ("Conv2d", (3, 4, 3), ((2, 3, 8, 8),)),
            ("BatchNorm1d", (4,), ((2, 4),)),
            ("LSTM", (4, 5), ((2, 3, 4),)),
            ("MultiheadAttention", (4, 2), ((2, 3, 4),) * 3),
            ("MaxPool1d", (2,), ((2, 3, 8),)),
            ("MSELoss", (), ((2, 3),) * 2),
            ("TransformerEncoderLayer", (4, 2), ((2, 3, 4),)),
            ("Flatten", (), ((2, 3, 4),)),
            ("Upsample", (4,), ((2, 3, 2),)),
            ("GRUCell", (4, 5), ((2, 4),)),
        ],
    )
    def test_modules(self, name: str, build: tuple[int, ...], arguments: tuple[tuple[int, ...], ...]) -> None:
        torch = pytest.importorskip("torch")
        cls = torch_api.torch_class(f"torch.nn.{name}")
        assert cls is not None
        assert cls.call is not None
        module: Callable[..., Any] = getattr(torch.nn, name)(*build)
        result = module(*(torch.ones(shape) for shape in arguments))
        kind = cls.call.returns(["tensor"] * len(arguments))
        foretold = _foretold(kind, 1).replace("union", "tensor")
        assert foretold == _observed(result)

    @pytest.mark.long
    @pytest.mark.may_skip
    @pytest.mark.timeout(1200)
    def test_the_file_is_what_this_torch_gives(self) -> None:
        torch = pytest.importorskip("torch")
        here = (torch.__version__.partition("+")[0], torch.version.cuda, platform.system(), sys.version_info >= (3, 11))
        if here != (torch_api.torch_version(), None, "Linux", True):
            pytest.skip("the file describes another release of torch, or was derived on another system")
        command = [sys.executable, "-m", "scripts.derive_torch_api", "--check"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
