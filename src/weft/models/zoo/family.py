"""How a family of published models is laid out: its config.json in our choices, its tensors' names in ours, both ways."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from weft.blocks import GELU, ClassifierHead, Dense, First, GELUTanh, ReLU, SiLU, Tanh
from weft.core.contracts import Activation, Embedder, Head, Pooler, Structure
from weft.core.fields import Field
from weft.core.options import Dropout, Heads, Layers, NonNegative, Width
from weft.core.registry import Build, base_of, name_of, options
from weft.models.classifier import Classifier
from weft.models.multiple_choice import MultipleChoiceModel
from weft.models.span_extractor import SpanExtractor
from weft.models.tagger import Tagger
from weft.models.text_encoder import TextEncoder
from weft.recipe.describe import allowed

Task = Literal[
    "encode",
    "masked-lm",
    "next-sentence",
    "replaced-token",
    "classification",
    "token-classification",
    "multiple-choice",
    "question-answering",
    "generation",
]
"""Tasks of published models, each with its head. ``encode`` has none: it outputs hidden states."""

ACTIVATIONS: dict[str, Build[Activation]] = {
    "gelu": GELU,
    "gelu_new": GELUTanh,
    "gelu_pytorch_tanh": GELUTanh,
    "gelu_fast": GELUTanh,
    "relu": ReLU,
    "silu": SiLU,
    "swish": SiLU,
    "tanh": Tanh,
}

CLS: Build[Pooler] = functools.partial(First, transform=functools.partial(Dense, activation=Tanh))
"""BERT's pooler: a dense map and tanh of the first token's vector."""


_KINDS: dict[Any, str] = {
    Width: "hidden_size intermediate_size embedding_size n_embd n_inner d_model d_ff d_kv encoder_ffn_dim decoder_ffn_dim "
    "max_position_embeddings n_positions type_vocab_size relative_attention_num_buckets relative_attention_max_distance "
    "patch_size num_channels pooler_output_size num_labels",
    Layers: "num_hidden_layers num_hidden_groups n_layer num_layers num_decoder_layers encoder_layers decoder_layers",
    Heads: "num_attention_heads n_head num_heads encoder_attention_heads decoder_attention_heads",
    Annotated[int, Ge(1), Le(10**8)]: "vocab_size",
    Annotated[int, Ge(-1), Le(10**8)]: "pad_token_id decoder_start_token_id",
    NonNegative: "layer_norm_eps layer_norm_epsilon",
    Dropout: "hidden_dropout_prob attention_probs_dropout_prob classifier_dropout classifier_dropout_prob resid_pdrop attn_pdrop "
    "embd_pdrop summary_first_dropout dropout attention_dropout activation_dropout dropout_rate",
    bool: "tie_word_embeddings scale_embedding scale_decoder_outputs",
    str: "hidden_act activation_function feed_forward_proj afn summary_activation",
    list[str]: "architectures",
    Literal["regression", "single_label_classification", "multi_label_classification"]: "problem_type",
}
KINDS = {key: (kind, TypeAdapter(kind)) for kind, keys in _KINDS.items() for key in keys.split()}
"""What the values of a config.json must be, of all families, with what checks it."""


class Config(dict[str, Any]):
    """A config.json: asking for what is not there, or is null, gives its family's default, or says that there is none."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return self.__missing__(key) if value is None else value

    def check(self) -> None:
        """Raise for values of another kind than their keys have, and for what no family here has."""
        for key, value in self.items():
            if value is not None and key in KINDS:
                kind, checks = KINDS[key]
                try:
                    checks.validate_python(value, strict=True)
                except ValidationError:
                    raise ValueError(f"config.json: {key} is {str(repr(value))[:100]}, but it must be {allowed(kind)}") from None
        self.refuse(quantization_config=None, pruned_heads={}, rotary=False)

    def __missing__(self, key: str) -> Any:
        kind = self.get("model_type", "model")
        if kind not in LAYOUTS or key not in LAYOUTS[kind].defaults:
            raise ValueError(f"config.json has no {key!r}, which a {kind} needs")
        return LAYOUTS[kind].defaults[key]

    def activation(self, key: str) -> Build[Activation]:
        name = self[key]
        if name not in ACTIVATIONS:
            raise ValueError(f"config.json: {key} is {name!r}, but known are: {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[name]

    def labels(self) -> tuple[str, ...]:
        """The classes' names, by their numbers."""
        named = self.get("id2label") or {str(i): f"LABEL_{i}" for i in range(self.get("num_labels", 2))}
        if not isinstance(named, dict) or set(named) != {str(i) for i in range(len(named))}:
            raise ValueError(f"config.json: id2label is {named!r}, but it must name the classes 0, 1, 2, ..., each once")
        return tuple(str(named[str(i)]) for i in range(len(named)))

    def label(self) -> Field:
        """The class that is said of a text; or several, or a number, as transformers takes problem_type."""
        names, problem = self.labels(), self.get("problem_type")
        if problem is None and len(names) == 1:
            problem = "regression"
        if problem == "regression":
            if len(names) > 1:
                raise ValueError(f"config.json: problem_type is 'regression' with {len(names)} labels, but only 1 is supported")
            return Field("label", 1, "number", space="label")
        kind = "labels" if problem == "multi_label_classification" else "label"
        return Field("label", len(names), kind, space="label", labels=names)

    def refuse(self, **wanted: Any) -> None:
        """Raise for choices of a family that weft does not have: each must be missing or have the value given here."""
        for key, value in wanted.items():
            if (said := self.get(key, value)) != value:
                raise ValueError(f"config.json: {key} is {said!r}, but only {value!r} is supported")


def text_field(config: Config) -> Field:
    """The text that a model reads, as far as its config.json tells."""
    length = next((config[k] for k in ("max_position_embeddings", "n_positions") if config.get(k)), 512)
    return Field("text", config["vocab_size"], max_length=length)


def vocab_size(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """As many ids as there are vectors of tokens."""
    return {"vocab_size": next(t.shape[0] for n, t in tensors.items() if n.endswith("embedder.parts.0.weight"))}


@dataclass(frozen=True)
class Layout:
    """One family.

    Args:
        type: Its ``model_type``.
        prefix: What stands before the names of the body in files of a model with a head.
        body: First words of those names after it; some files have them without the prefix.
        read: config.json, the task, and the names of the tensors -> our structure.
        write: Our structure's choices -> config.json (without the sizes that the data says).
        rules: Our structure -> the rules of its tensors' names.
        tasks: Names of transformers' classes (``architectures``) with what they are for.
        defaults: What transformers takes where config.json does not say it; sizes must be said.
        tied: Names of theirs that repeat the tokens' vectors when the head is tied to them.
        copies: Those that always do.
        zero: Pairs of names of ours: the first is 0 where a file has the second alone.
        ignored: Patterns of theirs that are no weights, or constants.
        field: config.json -> the field that is read.
        sizes: Our tensors -> what config.json says of the data: of a text, the size of its vocabulary.
        stretched: Of a family that sees: our structure, and the part that says where a patch is -> the structure with that part.
    """

    type: str
    prefix: str
    body: Sequence[str]
    read: Any
    write: Any
    rules: Any
    tasks: Mapping[str, str]
    defaults: Mapping[str, Any]
    tied: Sequence[str] = ()
    copies: Sequence[str] = ()
    zero: Sequence[tuple[str, str]] = ()
    ignored: Sequence[str] = ()
    field: Callable[[Config], Field] = text_field
    sizes: Callable[[Mapping[str, Tensor]], dict[str, Any]] = vocab_size
    stretched: Callable[[Build[Structure], Build[Embedder]], Build[Structure]] | None = None


LAYOUTS: dict[str, Layout] = {}


def layout(found: Layout) -> Layout:
    """Make a family known."""
    LAYOUTS[found.type] = found
    return found


def at(factory: Any, path: str) -> Any:
    """The choice at a path of nested factories: ``at(factory, "encoder.layer.mixer.heads")``; the defaults count."""
    for step in path.split("."):
        factory = factory[int(step)] if isinstance(factory, list | tuple) else options(factory)[step]
    return factory


def changed(factory: Any, **changes: Any) -> Any:
    """A factory with other choices."""
    base: Any = base_of(factory)
    return functools.partial(base, **{**options(factory), **changes})


def activation_name(factory: Any) -> str:
    """The name that config.json has for an activation."""
    for name, known in ACTIVATIONS.items():
        if name_of(known) == name_of(factory):
            return name
    raise ValueError(f"the activation {name_of(factory)} has no name in a published config.json")


def reader(
    task: Task,
    parts: Mapping[str, Any],
    *,
    fill: Build[Head] | None,
    relation: bool = False,
    judge: Build[Head] = ClassifierHead,
    cls: Build[Pooler] | None = CLS,
    head: Build[Head] = ClassifierHead,
    pooler: Build[Pooler] | None = None,
) -> Build[Structure]:
    """The structure for a task around the ``parts`` (dim, embedder, encoder) of a network that reads.

    Args:
        task: What it is for.
        parts: Its body.
        fill: The head that says hidden tokens, for the task ``fill``.
        relation: Whether it also says if two segments belong together, as it does for the task ``relate`` alone.
        judge: The head that says which tokens were replaced, for the task ``judge``.
        cls: The pooler it was published with.
        head: The head that says a class.
        pooler: Another pooler instead.
    """
    if task == "classification":
        return functools.partial(Classifier, **parts, pooler=pooler or cls or First, head=head)
    plain = functools.partial(ClassifierHead, dropout=at(head, "dropout"))
    if task == "multiple-choice":
        return functools.partial(MultipleChoiceModel, **parts, pooler=pooler or cls or First, head=plain)
    if task == "token-classification":
        return functools.partial(Tagger, **parts, head=plain)
    if task == "question-answering":
        return functools.partial(SpanExtractor, **parts)
    said: dict[str, Any] = {"head": fill if task == "masked-lm" else None}
    if relation or task == "next-sentence":
        said["segment_head"] = ClassifierHead
        cls = cls or (First if task == "next-sentence" else None)
    if task == "replaced-token":
        said["discriminator"] = judge
    return functools.partial(TextEncoder, **parts, pooler=pooler or cls, **said)


def class_rules(structure: Any, hidden: bool = False) -> dict[str, str]:
    """Names of the head that says a class of a text or of a word, chooses, or says where an answer is; ``hidden``: that of a text
    has a hidden layer."""
    if name_of(structure) == "multiple-choice":
        return {"classifier.*": "choice_head.out.*"}
    if name_of(structure) == "span-extractor":
        return {"qa_outputs.*": "span_head.out.*"}
    if name_of(structure) == "tagger":
        return {"classifier.*": "tag_head.out.*"}
    if hidden:
        return {"classifier.dense.*": "classifier.hidden.*", "classifier.out_proj.*": "classifier.out.*"}
    return {"classifier.*": "classifier.out.*"}


def out_of(structure: Any) -> str:
    """The part of the head for hidden tokens that has its bias: itself, or its own map where it is not tied."""
    head = options(structure).get("head") if name_of(structure) == "text-encoder" else None
    return "head.out" if head is not None and name_of(head) == "untied" else "head"


def tied(head: Any) -> bool:
    """Whether a head is tied to the tokens' vectors."""
    return head is not None and name_of(head) == "tied"
