"""BART: encoder-decoder model with learned positions and post-norm."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, get_args

from weft.blocks import (
    GELU,
    ClassifierHead,
    LayerNorm,
    LearnedPositionEmbedder,
    MultiHeadAttention,
    PositionwiseFeedForward,
    PostNorm,
    SharedTokenEmbedder,
    SumEmbedder,
    TiedHead,
    TokenEmbedder,
    Transformer,
    TransformerDecoder,
    TransformerLayer,
)
from weft.core.contracts import Activation, Structure
from weft.core.options import Count, Dim, Dropout, FileOrFolder, Heads, Layers
from weft.core.registry import Build, composition
from weft.models.seq2seq import Seq2Seq
from weft.models.seq2seq_classifier import Seq2SeqClassifier
from weft.models.zoo.config import ModelConfig
from weft.models.zoo.config_table import HIDDEN, Constant, Conversion, Key, activation
from weft.models.zoo.family import Family, register_family
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

BART = {"base": ModelSize(768, 6, 12, 3072), "large": ModelSize(1024, 12, 16, 4096)}
"""Lewis et al. 2020, sections 2.1 and 5."""
OFFSET = 2
"""Rows of the position embeddings that the published models leave unused."""
DEFAULT_EOS = 2
"""eos_token_id where config.json has none."""
BartTask = Literal["generation", "classification"]


def encoder_and_decoder(
    encoder: ModelSize,
    decoder: ModelSize,
    *,
    length: int,
    activation: Build[Activation] = GELU,
    scale: float = 1.0,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    hidden_dropout: float = 0.0,
    task: BartTask = "generation",
    class_dropout: float = 0.0,
) -> Build[Structure]:
    """Encoder and decoder with post-norm; shared token embeddings, but separate positions and embedding norms."""

    def layer(size: ModelSize) -> Build[Any]:
        return partial(
            TransformerLayer,
            mixer=partial(MultiHeadAttention, heads=size.heads, dropout=attention_dropout),
            feedforward=partial(PositionwiseFeedForward, hidden=size.hidden, activation=activation, dropout=hidden_dropout),
            residual=partial(PostNorm, dropout=dropout),
        )

    def embedder(tokens: Build[Any]) -> Build[Any]:
        positions = partial(LearnedPositionEmbedder, length=length, offset=OFFSET)
        return partial(SumEmbedder, parts=[partial(tokens, scale=scale), positions], norm=LayerNorm, dropout=dropout)

    parts: dict[str, Any] = {
        "dim": encoder.dim,
        "embedder": embedder(TokenEmbedder),
        "target_embedder": embedder(SharedTokenEmbedder),
        "encoder": partial(Transformer, layers=encoder.layers, layer=layer(encoder), position=None, norm=None),
        "decoder": partial(TransformerDecoder, layers=decoder.layers, layer=layer(decoder), position=None, norm=None),
    }
    if task == "classification":
        return partial(Seq2SeqClassifier, **parts, head=partial(ClassifierHead, hidden=encoder.dim, dropout=class_dropout))
    return partial(Seq2Seq, **parts, head=partial(TiedHead, scale=1.0, bias=True))


@composition("bart")
def bart(
    *,
    size: Literal["base", "large"] = "base",
    dim: Dim | None = None,
    layers: Layers | None = None,
    heads: Heads | None = None,
    hidden: Dim | None = None,
    length: Count = 1024,
    dropout: Dropout = 0.1,
    task: BartTask = "generation",
    weights: FileOrFolder | None = None,
) -> Build[Structure]:
    """BART: denoising encoder-decoder Transformer.

    Lewis et al. 2020, https://arxiv.org/abs/1910.13461

    Args:
        size: A published size.
        dim: Hidden size; None = that of the size. If set, heads default to dim / 64 and hidden to 4 dim.
        layers: Number of encoder layers and of decoder layers; None = those of the size.
        heads: Attention heads per layer; None = that of the size.
        hidden: Inner dimension of the feed-forward network; None = that of the size.
        length: Number of positions.
        dropout: Dropout probability of the sub-layers and of the embeddings.
        task: generation, or classification of the last decoder state (section 3.1).
        weights: Folder of a published model or of a run whose weights of the same name initialize this model; None = random.

    Example:
        >>> bart(size="large").keywords["dim"]
        1024
    """
    sizes = BART[size].override(dim, layers, heads, hidden)
    return partial(encoder_and_decoder(sizes, sizes, length=length, dropout=dropout, task=task), weights=weights)


# --------------------------------------------------------------------------------------------------- published models


def _rules(structure: Any) -> list[Rule]:
    named = {"model.shared.weight": "embedder.parts.0.weight"}
    for side, embedder in (("encoder", "embedder"), ("decoder", "target_embedder")):
        theirs, ours = f"model.{side}.layers.#", f"{side}.stack.layers.#"
        named[f"model.{side}.embed_positions.weight"] = f"{embedder}.parts.1.weight"
        named[f"model.{side}.layernorm_embedding.*"] = f"{embedder}.norm.*"
        for attention, mine in (("self_attn", "mixer"), ("encoder_attn", "context"))[: 1 + (side == "decoder")]:
            for short, word in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out")):
                named[f"{theirs}.{attention}.{short}.*"] = f"{ours}.{mine}.{word}.*"
            named[f"{theirs}.{attention}_layer_norm.*"] = f"{ours}.{mine}_residual.norm.*"
        named[f"{theirs}.fc1.*"] = f"{ours}.feedforward.up.*"
        named[f"{theirs}.fc2.*"] = f"{ours}.feedforward.down.*"
        named[f"{theirs}.final_layer_norm.*"] = f"{ours}.feedforward_residual.norm.*"
    named["classification_head.dense.*"] = "classifier.hidden.*"
    named["classification_head.out_proj.*"] = "classifier.out.*"
    return rules(named) + rules({"final_logits_bias": "head.bias"}, lead=1)


def _structure(config: ModelConfig, task: str, names: set[str]) -> Build[Structure]:
    if task != "generation" and task != "classification":
        raise ValueError(f"task {task} is not supported by bart; use one of {', '.join(get_args(BartTask))}")
    start, eos = (config.get(f"{which}_token_id", DEFAULT_EOS) for which in ("decoder_start", "eos"))
    if task == "classification" and start != eos:
        raise ValueError(
            f"config.json: decoder_start_token_id is {start!r}, but task classification needs eos_token_id ({eos!r})"
        )
    return encoder_and_decoder(BART["base"], BART["base"], length=1024, task=task)


def _both(path: str) -> tuple[str, str]:
    """An option of the encoder and of the decoder."""
    return f"encoder.{path}", f"decoder.{path}"


def _embedders(path: str) -> tuple[str, str]:
    """An option of the embedder and of the target embedder."""
    return f"embedder.{path}", f"target_embedder.{path}"


_SCALE = Conversion(bool, lambda scaled, config: config["d_model"] ** 0.5 if scaled else 1.0, lambda scale, _: scale != 1.0)
_KEYS = (
    Constant("tie_word_embeddings", True),
    Constant("is_encoder_decoder", True, written=True),
    Key("d_model", Dim, "dim", "seq2seq-classifier:head.hidden"),
    Key("max_position_embeddings", Dim, *_embedders("parts.1.length")),
    Key("activation_function", activation("activation_function"), *_both("layer.feedforward.activation"), default="gelu"),
    Key("scale_embedding", _SCALE, *_embedders("parts.0.scale"), default=False),
    Key("dropout", Dropout, *_both("layer.residual.dropout"), *_embedders("dropout"), default=0.1),
    Key("attention_dropout", Dropout, *_both("layer.mixer.dropout"), default=0.0),
    Key("activation_dropout", Dropout, *_both("layer.feedforward.dropout"), default=0.0),
    Key("encoder_layers", Layers, "encoder.layers"),
    Key("encoder_attention_heads", Heads, "encoder.layer.mixer.heads"),
    Key("encoder_ffn_dim", HIDDEN, "encoder.layer.feedforward.hidden"),
    Key("decoder_layers", Layers, "decoder.layers"),
    Key("decoder_attention_heads", Heads, "decoder.layer.mixer.heads"),
    Key("decoder_ffn_dim", HIDDEN, "decoder.layer.feedforward.hidden"),
    Key("classifier_dropout", Dropout, "seq2seq-classifier:head.dropout", default=0.0),
)

register_family(
    Family(
        model_type="bart",
        prefix="model.",
        body=("shared", "encoder", "decoder"),
        structure=_structure,
        config=_KEYS,
        rules=_rules,
        tasks={
            "BartForConditionalGeneration": "generation",
            "BartModel": "generation",
            "BartForSequenceClassification": "classification",
        },
        copies=("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"),
        zero=(("head.bias", "embedder.parts.0.weight"),),  # a BartModel has no head
    )
)
