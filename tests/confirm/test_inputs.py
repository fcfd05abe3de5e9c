"""Inputs that are worked out: each module here must be built and run without a word from the user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dynalint.confirm.worker.inputs import guessed_values, targets
from dynalint.confirm.worker.inputs.constructors import constructions
from dynalint.confirm.worker.inputs.search import NoInputsError, find_call
from dynalint.confirm.worker.inputs.variants import other_batch, other_ranks
from dynalint.confirm.worker.process.wire import Silent
from dynalint.confirm.worker.source import loading

pytestmark = pytest.mark.dynamo


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(100, 50)

    def forward(self, x):
        return self.fc(x)


class Pictures(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.fc1 = nn.Linear(9216, 16)
        self.fc2 = nn.Linear(16, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return self.fc2(self.fc1(torch.flatten(x, 1)))


class Words(nn.Module):
    def __init__(self, vocab_size: int, embed_dim: int, num_heads: int):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embed_dim)
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, input_ids, attention_mask=None):
        h = self.embed(input_ids)
        return self.attention(h, h, h)[0]


class Recurrent(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.LSTM(input_size, hidden_size)

    def forward(self, x, state: Optional[torch.Tensor] = None):  # noqa: UP045
        return self.rnn(x)[0]


@dataclass
class Config:
    n_embd: int
    n_head: int = 4
    dropout: float = 0.0
    bias: bool = True


class Configured(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.heads = config.n_head

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        return (q + k + v).view(batch, length, self.heads, width // self.heads)


class Loosely(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.fc = nn.Linear(cfg.hidden_size, cfg.intermediate_size)
        self.drop = nn.Dropout(cfg.hidden_dropout_prob)
        self.scale = cfg.get("scale", 2.0)
        if cfg.use_cache:
            raise RuntimeError("no cache")

    def forward(self, hidden_states):
        return self.drop(self.fc(hidden_states)) * self.scale


class Block(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, act_layer=nn.ReLU, norm_layer=None):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride)
        self.norm = (norm_layer or nn.BatchNorm2d)(out_channels)
        self.act = act_layer()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Inner(nn.Module):
    def __init__(self, latent_dim):
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU())
        self.mu = nn.Linear(8 * 32 * 32, latent_dim)

    def forward(self, x):
        h = self.block(x)
        return self.mu(h.view(h.size(0), -1))


class Two(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(64, dim)

    def forward(self, x, context):
        return self.q(x) @ self.k(context).transpose(-1, -2)


class NoLayers(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        return x.view(batch, channels, height * width).mean(-1)


class Products(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


class Flagged(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size))

    def forward(self, x: torch.Tensor, return_all: bool, *, scale: float, names: list[str]):
        return (x @ self.weight) * scale, return_all


class Wrapping(nn.Module):
    def __init__(self, backbone: nn.Module, head: nn.Module, shape: tuple[int, int]):
        super().__init__()
        self.backbone, self.head = backbone, head
        self.register_buffer("grid", torch.zeros(shape))

    def forward(self, x):
        return self.head(self.backbone(x))


@pytest.mark.parametrize(
    "cls",
    [Layer, Pictures, Words, Recurrent, Configured, Loosely, Block, Inner, Two, NoLayers, Products, Flagged, Wrapping],
)
def test_a_module_is_built_and_called(cls: type) -> None:
    make, text = next(constructions(cls))
    module = make()
    found = find_call(module, "cpu", 30)
    args, kwargs = found.call
    module(*args, **kwargs)
    assert text.startswith(cls.__name__)


def test_the_words_say_how_it_was_called() -> None:
    make, text = next(constructions(Pictures))
    assert text == "Pictures(num_classes=8)"
    assert find_call(make(), "cpu", 30).text == "x=float[5, 1, 28, 28]"


def test_functions_are_called_by_annotation_and_name() -> None:
    def step(x: torch.Tensor, n: int, labels, scale: float = 2.0):
        return F.cross_entropy(x, labels[:, 0]) * n * scale

    found = find_call(step, "cpu", 30)
    assert found.call[0][1] == guessed_values.WIDTH
    assert found.call[0][2].dtype == torch.int64


def test_the_same_code_gives_the_same_inputs() -> None:
    (one, *_), _ = find_call(Layer(), "cpu", 30).call
    (two, *_), _ = find_call(Layer(), "cpu", 30).call
    assert torch.equal(one, two)


def test_what_cannot_be_worked_out_says_what_the_best_attempt_raised() -> None:
    class Odd(nn.Module):
        def forward(self, x):
            if x.dim() != 2:
                raise ValueError("another number of dimensions")
            x.sum()
            raise KeyError("the right dictionary")

    with pytest.raises(NoInputsError, match="the attempt that got furthest raised KeyError: 'the right dictionary'"):
        find_call(Odd(), "cpu", 30)


class Odd:
    def __init__(self, *, rows: complex):
        self.rows = rows


class UsesOdd(nn.Module):
    def __init__(self, odd: Odd):
        super().__init__()


class UsesUnresolved(nn.Module):
    def __init__(self, size: "NoSuchName"):  # type: ignore[name-defined] # noqa: F821, UP037
        super().__init__()
        self.size = size


def test_a_class_is_made_by_its_own_parameters_or_the_one_at_fault_is_named() -> None:
    with pytest.raises(guessed_values.NoGuessError, match=r"nothing is known about parameter 'rows' \(complex\)"):
        next(constructions(UsesOdd))


def test_an_annotation_that_does_not_resolve_leaves_the_name() -> None:
    make, _ = next(constructions(UsesUnresolved))
    assert make().size == guessed_values.WIDTH


def test_an_end_that_was_asked_for_is_no_matter_of_inputs() -> None:
    def leaves(x: torch.Tensor):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        find_call(leaves, "cpu", 30)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_heads", 4),
        ("d_model", guessed_values.WIDTH),
        ("hidden_size", guessed_values.WIDTH),
        ("num_hidden_layers", 2),
        ("attention_probs_dropout_prob", 0.0),
        ("layer_norm_eps", 0.1),
        ("eps", 0.1),
        ("num_steps", 2),
        ("pool_steps", 2),
        ("use_bias", False),
        ("vocab_size", 32),
        ("kernel_size", 3),
        ("num_classes", 8),
        ("padding_idx", 0),
        ("pad_token_id", 0),
        ("whatever", guessed_values.WIDTH),
    ],
)
def test_usual_names(name: str, value: Any) -> None:
    assert guessed_values.by_name(name) == value


def test_a_guessed_config_has_an_end() -> None:
    config = guessed_values.GuessedConfig()
    assert config["hidden_size"] == guessed_values.WIDTH
    assert list(config) == ["hidden_size"]


def test_another_batch_has_more_rows_everywhere() -> None:
    call = ((torch.zeros(5, 3), {"ids": torch.arange(5)}), {"other": torch.zeros(7)})
    (x, named), kwargs = other_batch(call) or ((), {})
    assert x.shape == (8, 3)
    assert named["ids"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert kwargs["other"].shape == (7,)
    assert other_batch(((3,), {})) is None


def test_other_ranks_change_all_that_has_the_rank_of_the_first() -> None:
    call = ((torch.zeros(5, 3, requires_grad=True), torch.zeros(5)), {"target": torch.zeros(5, 3)})
    shapes = [
        [tuple(leaf.shape for leaf in (*args, kwargs["target"])) for args, kwargs in alternatives]
        for alternatives in other_ranks(call)
    ]
    assert shapes == [[((5, 3, 4), (5,), (5, 3, 4)), ((5, 7, 3), (5,), (5, 7, 3))], [((5,), (5,), (5,))] * 2]
    assert next(other_ranks(call))[0][0][0].requires_grad
    assert [len(alternatives) for alternatives in other_ranks(((torch.zeros(5),), {}))] == [2]
    assert list(other_ranks(((3,), {}))) == []


class Sized(nn.Module):
    def forward(self, x):
        if x.shape[1] != 24:
            raise ValueError(f"Input length ({x.shape[1]}) does not match the model ({24}).")
        return x + 1


class _Edges(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Conv2d(3, 1, 1)

    def forward(self, feat: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        score = self.score(feat)
        return nn.functional.binary_cross_entropy_with_logits(score, label.detach())


class _OutsideDomainError(Exception):
    pass


class _Spline(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if inputs.min() < 0.0 or inputs.max() > 1.0:
            raise _OutsideDomainError
        return inputs.sqrt()


def test_labels_are_floats_where_a_loss_takes_no_integers() -> None:
    assert find_call(_Edges(), "cpu", 60).call[0][1].is_floating_point()


def test_inputs_outside_a_domain_are_replaced_by_some_between_0_and_1() -> None:
    (inputs,), _ = find_call(_Spline(), "cpu", 60).call
    assert inputs.min() >= 0
    assert inputs.max() <= 1


def test_a_size_that_only_the_message_tells_of_is_taken_from_there() -> None:
    (x,), _ = find_call(Sized(), "cpu", 30).call
    assert x.shape[1] == 24


class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Upsample(scale_factor=2)

    def forward(self, low, high):
        return self.up(low) + high


class Pairs(nn.Module):
    """Has labels that are None by default, but are needed, and states how many dimensions they have."""

    def forward(self, embeddings: torch.Tensor, labels: Any = None, reference: Any = None) -> torch.Tensor:
        labels = labels * (labels > -1)
        if labels.dim() != 1:
            raise ValueError("labels must be a 1D tensor of shape (batch_size,)")
        if len(labels) != len(embeddings):
            raise ValueError("Number of embeddings must equal number of labels")
        return embeddings[labels == labels[0]].sum()


def test_what_is_none_by_default_is_given_if_the_code_needs_it() -> None:
    found = find_call(Pairs(), "cpu", 10)
    assert "labels=" in found.text
    assert "reference" not in found.text


def test_a_model_may_be_an_argument_of_a_call() -> None:
    def penalty(subject, x):
        subject.train()
        return subject(x).sum()

    (model, x), _ = find_call(penalty, "cpu", 10).call
    assert isinstance(model, torch.nn.Module)
    assert isinstance(x, torch.Tensor)


def test_an_option_that_the_message_names_is_given() -> None:
    def stepped(x: torch.Tensor, condition: Any = None, scale: Any = None, timestep: Any = None) -> torch.Tensor:
        if timestep is None:
            raise ValueError("a timestep must be given")
        return x * timestep

    assert find_call(stepped, "cpu", 10).call[1].keys() == {"timestep"}


def test_two_pictures_of_different_scale_are_brought_together() -> None:
    (low, high), _ = find_call(Pyramid(), "cpu", 30).call
    assert [2 * side for side in low.shape[2:]] == list(high.shape[2:])


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=8)

    def forward(self, x):
        return F.avg_pool2d(self.conv(x), 7)


@dataclass
class EyeConfig:
    image_size: int = 48
    num_channels: int = 3


@dataclass
class PairConfig:
    eye: EyeConfig
    width: int = 16


class Pair(nn.Module):
    """Settings of a part say what a picture is like."""

    def __init__(self, config: PairConfig):
        super().__init__()
        self.config = config

    def forward(self, input_ids, pixel_values):
        assert pixel_values.shape[1:] == (self.config.eye.num_channels, 48, 48)
        return pixel_values.mean() * input_ids


def test_sizes_that_no_argument_has() -> None:
    assert find_call(Pair(PairConfig(EyeConfig())), "cpu", 30).call[0][1].shape[1:] == (3, 48, 48)


def test_a_picture_too_small_for_the_pools_is_made_larger() -> None:
    (x,), _ = find_call(Pooled(), "cpu", 30).call
    assert x.shape == (5, 3, 64, 64)


class Crop(nn.Module):
    def forward(self, x):
        n, _, height, _ = x.shape
        at = torch.randint(0, height - 83, (n,))
        return torch.stack([one[:, start : start + 84] for one, start in zip(x, at, strict=True)])


def test_a_picture_too_small_for_a_crop_is_made_larger() -> None:
    (x,), _ = find_call(Crop(), "cpu", 30).call
    assert x.shape[2] >= 84


class Compared(nn.Module):
    def forward(self, prediction, target):
        if prediction.shape[-1] != 4:
            raise ValueError("boxes have 4 numbers")
        return (prediction - target).abs().mean()


def test_what_is_compared_gets_the_same_shape() -> None:
    (prediction, target), _ = find_call(Compared(), "cpu", 30).call
    assert prediction.shape[-1] == 4
    assert torch.broadcast_shapes(prediction.shape, target.shape) == prediction.shape


def test_lengths_are_positive() -> None:
    def pooled(x: torch.Tensor, lengths: torch.Tensor):
        assert lengths.min() > 0
        return x / lengths[:, None]

    find_call(pooled, "cpu", 10)


def test_lengths_are_sorted_where_sequences_are_packed() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 8)
            self.lstm = nn.LSTM(8, 4, batch_first=True)

        def forward(self, seqs, in_lens):
            packed = nn.utils.rnn.pack_padded_sequence(self.embed(seqs), in_lens.to("cpu"), batch_first=True)
            return self.lstm(packed)[0].data

    find_call(Tagger(), "cpu", 10)


def test_tensors_that_are_differentiated_require_gradients() -> None:
    def forces(energy, pos):
        return torch.autograd.grad([energy.sum()], [pos], allow_unused=True)[0]

    find_call(forces, "cpu", 10)


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, seen, old, chosen, gain):
        ratio = self.fc(seen).softmax(-1) / old.softmax(-1)
        return (ratio.gather(1, chosen[:, None]).squeeze(1) * gain).sum()


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, encoded, future):
        steps = [self.cell(encoded), encoded, encoded, encoded]
        return torch.stack(steps, 1)[..., :2] - future


@pytest.mark.parametrize(
    ("made", "shapes"),
    [
        (Policy, [(5, 6), (5, 3)]),
        (Decoder, [(5, 8), (5, 4, 2)]),
    ],
)
def test_the_operands_of_the_failed_operation_tell_which_argument_to_change(
    made: type[nn.Module], shapes: list[tuple[int, ...]]
) -> None:
    args, _ = find_call(made(), "cpu", 30).call
    assert [tuple(one.shape) for one in args[:2]] == shapes


def test_shapes_in_parentheses_follow_names_without_a_colon() -> None:
    class Boxes(nn.Module):
        def forward(self, located, classes):
            """Compare boxes.

            Args:
                located (batch, priors, 4), classes (batch, priors): what was found
            """
            return located[classes > 0].view(-1, 4)

    (located, classes), _ = find_call(Boxes(), "cpu", 30).call
    assert (located.dim(), located.shape[2], located.shape[:2]) == (3, 4, classes.shape)


class Clips(nn.Module):
    def forward(self, clips):
        if clips.dim() != 5:
            raise ValueError(f"Clips only works for 5D tensors, but got {clips.dim()}D input!")
        return clips.mean(2)


class Sides(nn.Module):
    def forward(self, boxes):
        x, y, w, h = boxes.unbind(-1)
        return (x + y + w + h).mean()


@pytest.mark.parametrize(("cls", "shape"), [(Sides, (5, 4)), (Clips, (5, 16, 4, 16, 16))])
def test_what_is_unpacked_or_stated_tells_the_shape(cls: type[nn.Module], shape: tuple[int, ...]) -> None:
    (given,), _ = find_call(cls(), "cpu", 30).call
    assert tuple(given.shape) == shape


class Points(nn.Module):
    def forward(self, points, target, tokens):
        known = tokens.ne(0)
        return F.smooth_l1_loss(points[known].view(-1, 3), target[known].view(-1, 3).float())


class Corners(nn.Module):
    def forward(self, boxes, truth):
        return (boxes[..., 2:] - boxes[..., :2]).prod(-1) + truth[..., 0]


def test_selected_rows_tell_what_has_how_many_dimensions() -> None:
    (points, target, tokens), _ = find_call(Points(), "cpu", 10.0).call
    assert points.shape[: tokens.dim()] == target.shape[: tokens.dim()] == tokens.shape


def test_two_halves_get_the_same_size() -> None:
    assert find_call(Corners(), "cpu", 10.0).text.startswith("boxes=float[5, 4]")


class Likelihood(nn.Module):
    def forward(self, concentration, rate, target):
        # Dynamo turns the default off, for the whole process.
        chances = torch.distributions.Gamma(concentration, rate, validate_args=True)
        return -chances.log_prob(target.exp()).mean()


class Logarithm(nn.Module):
    def forward(self, mean, variance, target):
        loss = ((mean - target) ** 2 / variance).sum() + torch.log(variance).sum()
        assert not loss.isnan(), "the loss is NaN"
        return loss


@pytest.mark.parametrize("cls", [Likelihood, Logarithm])
def test_values_may_have_to_be_positive(cls: type[nn.Module]) -> None:
    found = find_call(cls(), "cpu", 10.0)
    assert [bool(value.min() > 0 and value.max() < 1) for value in found.call[0][:2]] == [True, True]


class OtherAttention(nn.TransformerEncoderLayer):
    """Its base class makes a layer that it does without."""

    def __init__(self, d_model, nhead):
        super().__init__(d_model, nhead, batch_first=True)
        del self.self_attn

    def forward(self, src):
        return self.linear2(self.linear1(src))


def test_a_layer_without_the_parts_of_its_base_class_is_called() -> None:
    assert find_call(OtherAttention(16, 4), "cpu", 10.0).call[0][0].shape[-1] == 16


class Queue(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(8, 8)
        self.register_buffer("queue", torch.randn(8, 12))

    def forward(self, query, key):
        assert self.queue.shape[1] % key.shape[0] == 0
        scores = torch.einsum("nc,nc->n", [self.encode(query), key])
        return scores[:, None] + torch.einsum("nc,ck->nk", [key, self.queue])


class Unpacked(nn.Module):
    def forward(self, image, boxes):
        _, c, _, _ = image.shape
        _, n, _ = boxes.size()
        return image.sum() * c + boxes.sum() * n


def test_what_the_code_unpacks_tells_the_number_of_dimensions() -> None:
    assert [one.dim() for one in find_call(Unpacked(), "cpu", 30).call[0]] == [4, 3]


def test_what_torch_says_about_operands_tells_the_shapes() -> None:
    function = Queue()
    function(*find_call(function, "cpu", 30).call[0])


def _rotated(x):
    return (x[:, None].permute(0, 2, 1)).sum(-1) @ torch.randn(6, 2)


def _scaled(x, scale):
    return x @ torch.randn(16, 2) * float(scale)


@pytest.mark.parametrize(("function", "shapes"), [(_rotated, [(5, 6)]), (_scaled, [(5, 16), ()])])
def test_arguments_have_the_dimensions_that_their_operands_need(function: Any, shapes: list[tuple[int, ...]]) -> None:
    args, _ = find_call(function, "cpu", 30).call
    assert [tuple(one.shape) for one in args] == shapes


class _Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 16)

    def forward(self, data: Any) -> torch.Tensor:
        return self.table(data["input_ids"])


class _OfBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.fc = _Embedding(), nn.Linear(16, 8)

    def forward(self, batch: dict[str, torch.Tensor], scale: float) -> torch.Tensor:
        return self.fc(self.embedding(batch) + batch["features"]) * scale


def test_a_dict_has_the_keys_that_the_code_reads() -> None:
    found = find_call(_OfBatch(), "cpu", 60)
    batch, _ = found.call[0]
    assert sorted(batch) == ["features", "input_ids"]
    assert not batch["input_ids"].is_floating_point()
    assert "batch['features']=" in found.text


class Features(nn.Module):
    names = ("user", "item_id")

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.tables = nn.ModuleDict({name: nn.Embedding(5, 4) for name in self.names})

    def forward(self, batch: dict[str, torch.Tensor]):
        total = self.fc(batch["dense"])
        for name in self.names:
            total = total + self.tables[name](batch[name])
        return total


def test_a_key_that_is_not_a_literal_gets_an_item() -> None:
    (batch,), _ = find_call(Features(), "cpu", 30).call
    assert set(batch) == {"dense", "user", "item_id"}


def test_the_fixtures_of_a_test_are_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "test_of_fixtures.py"
    file.write_text("def test_alone():\n    return 1\n\ndef test_with(monkeypatch):\n    return monkeypatch + 1\n")
    loading.prepare([str(tmp_path)], {})
    request = {"device": "cpu", "name": "a test", "example": None, "calls": [], "guesses": True, "seconds": 10}

    def subject(name: str) -> Any:
        target = {"path": str(file), "module": file.stem, "qualname": name}
        return targets.subject_of({**request, "target": target}, Silent())

    assert subject("test_alone").text.startswith("test_alone")
    with pytest.raises(targets.ProblemError) as met:
        subject("test_with")
    assert "fixtures" in met.value.failure.message


def test_the_reason_is_the_problem_of_the_attempt_that_ran_furthest(tmp_path: Path) -> None:
    file = tmp_path / "model_that_is_built_second.py"
    text = (
        "from torch import nn\n\nclass Model(nn.Module):\n    def __init__(self, mean):\n        super().__init__()\n"
    )
    text += "        self.size = mean.shape\n\n    def forward(self, x):\n        raise ImportError('no solver')\n"
    file.write_text(text)
    loading.prepare([str(tmp_path)], {})
    request = {"device": "cpu", "name": "a model", "example": None, "calls": [], "guesses": True, "seconds": 10}
    target = {"path": str(file), "module": file.stem, "qualname": "Model"}
    with pytest.raises(targets.ProblemError) as met:
        targets.subject_of({**request, "target": target}, Silent())
    assert (met.value.phase, "no solver" in met.value.failure.message) == ("run", True)
