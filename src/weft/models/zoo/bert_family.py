"""Published BERT, RoBERTa, ALBERT and ELECTRA models: their config.json and tensor names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from weft.blocks import GELU, ClassifierHead
from weft.core.contracts import Head, Pooler, Structure
from weft.core.registry import Build, name_of
from weft.models.zoo.bert import body, electra_summary, masked_lm_head
from weft.models.zoo.config import ModelConfig, activation_name, activation_named
from weft.models.zoo.family import (
    BERT_POOLER,
    Family,
    Task,
    mlm_bias_module,
    option_at,
    register_family,
    task_head_rules,
    task_model,
)
from weft.models.zoo.sizes import ModelSize
from weft.models.zoo.tensor_names import Rule, rules

# --------------------------------------------------------------------------------------------------------- tensor names


def _layer(theirs: str, ours: str) -> list[Rule]:
    """Rules for one layer of BERT."""
    return rules(
        {
            f"{theirs}.attention.self.query.*": f"{ours}.mixer.query.*",
            f"{theirs}.attention.self.key.*": f"{ours}.mixer.key.*",
            f"{theirs}.attention.self.value.*": f"{ours}.mixer.value.*",
            f"{theirs}.attention.output.dense.*": f"{ours}.mixer.out.*",
            f"{theirs}.attention.output.LayerNorm.*": f"{ours}.mixer_residual.norm.*",
            f"{theirs}.intermediate.dense.*": f"{ours}.feedforward.up.*",
            f"{theirs}.output.dense.*": f"{ours}.feedforward.down.*",
            f"{theirs}.output.LayerNorm.*": f"{ours}.feedforward_residual.norm.*",
        }
    )


def _embeddings(prefix: str) -> list[Rule]:
    return rules(
        {
            f"{prefix}embeddings.word_embeddings.weight": "embedder.parts.0.weight",
            f"{prefix}embeddings.position_embeddings.weight": "embedder.parts.1.weight",
            f"{prefix}embeddings.token_type_embeddings.weight": "embedder.parts.2.weight",
            f"{prefix}embeddings.LayerNorm.*": "embedder.norm.*",
        }
    )


def _bert_rules(structure: Any) -> list[Rule]:
    heads = {
        "bert.pooler.dense.*": "pooler.transform.map.*",
        "cls.predictions.transform.dense.*": "head.transform.map.*",
        "cls.predictions.transform.LayerNorm.*": "head.transform.norm.*",
        "cls.predictions.decoder.*": "head.out.*",
        "cls.predictions.bias": f"{mlm_bias_module(structure)}.bias",
        "cls.seq_relationship.*": "segment_head.out.*",
    }
    body_rules = _embeddings("bert.") + _layer("bert.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | task_head_rules(structure))


def _roberta_rules(structure: Any) -> list[Rule]:
    heads = {
        "roberta.pooler.dense.*": "pooler.transform.map.*",
        "lm_head.dense.*": "head.transform.map.*",
        "lm_head.layer_norm.*": "head.transform.norm.*",
        "lm_head.decoder.*": "head.out.*",
        "lm_head.bias": f"{mlm_bias_module(structure)}.bias",
    }
    body_rules = _embeddings("roberta.") + _layer("roberta.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | task_head_rules(structure, hidden=True))


def _albert_rules(structure: Any) -> list[Rule]:
    theirs, ours = "albert.encoder.albert_layer_groups.#.albert_layers.0", "encoder.stack.layers.#"
    named = {
        "albert.encoder.embedding_hidden_mapping_in.*": "embedder.project.map.*",
        f"{theirs}.attention.query.*": f"{ours}.mixer.query.*",
        f"{theirs}.attention.key.*": f"{ours}.mixer.key.*",
        f"{theirs}.attention.value.*": f"{ours}.mixer.value.*",
        f"{theirs}.attention.dense.*": f"{ours}.mixer.out.*",
        f"{theirs}.attention.LayerNorm.*": f"{ours}.mixer_residual.norm.*",
        f"{theirs}.ffn.*": f"{ours}.feedforward.up.*",
        f"{theirs}.ffn_output.*": f"{ours}.feedforward.down.*",
        f"{theirs}.full_layer_layer_norm.*": f"{ours}.feedforward_residual.norm.*",
        "albert.pooler.*": "pooler.transform.map.*",
        "predictions.dense.*": "head.transform.map.*",
        "predictions.LayerNorm.*": "head.transform.norm.*",
        "predictions.decoder.*": "head.out.*",
        "predictions.bias": f"{mlm_bias_module(structure)}.bias",
        "sop_classifier.classifier.*": "segment_head.out.*",
    }
    return _embeddings("albert.") + rules(named | task_head_rules(structure))


def _electra_rules(structure: Any) -> list[Rule]:
    heads = {
        "electra.embeddings_project.*": "embedder.project.map.*",
        "sequence_summary.summary.*": "pooler.transform.map.*",
        "discriminator_predictions.dense.*": "discriminator.hidden.*",
        "discriminator_predictions.dense_prediction.*": "discriminator.out.*",
        "generator_predictions.dense.*": "head.transform.map.*",
        "generator_predictions.LayerNorm.*": "head.transform.norm.*",
        "generator_lm_head.*": f"{mlm_bias_module(structure)}.*",
    }
    body_rules = _embeddings("electra.") + _layer("electra.encoder.layer.#", "encoder.stack.layers.#")
    return body_rules + rules(heads | task_head_rules(structure, hidden=True))


# ---------------------------------------------------------------------------------------------------------- config.json


def _from_config(config: ModelConfig, task: Task, names: Iterable[str]) -> Build[Structure]:
    """The structure that config.json describes; ``names`` of the tensors tell which heads the file has."""
    names = set(names)
    config.require(position_embedding_type="absolute", is_decoder=False, add_cross_attention=False, inner_group_num=1)
    if task == "question-answering" and (labels := len(config.labels())) != 2:
        raise ValueError(f"config.json: {labels} labels (num_labels, id2label); question answering needs 2, for start and end")
    has_segment_head = any("seq_relationship" in name or "sop_classifier" in name for name in names)
    return task_model(
        task,
        _body_of(config),
        mlm_head=_mlm_head_of(config),
        with_segment_head=has_segment_head and task == "masked-lm",
        discriminator=partial(ClassifierHead, hidden=config["hidden_size"], activation=config.activation("hidden_act")),
        published_pooler=_pooler_of(config, task, names),
        head=_classifier_of(config),
    )


def _body_of(config: ModelConfig) -> dict[str, Any]:
    model_type = config["model_type"]
    size = ModelSize(*(config[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")))
    offset = config["pad_token_id"] + 1 if model_type == "roberta" else 0
    return body(
        size,
        length=config["max_position_embeddings"] - offset,
        offset=offset,
        segments=config["type_vocab_size"],
        embedding_dim=_embedding_dim_of(config),
        project=model_type == "albert",
        groups=config["num_hidden_groups"] if model_type == "albert" else None,
        activation=config.activation("hidden_act"),
        eps=config["layer_norm_eps"],
        dropout=config["hidden_dropout_prob"],
        attention_dropout=config["attention_probs_dropout_prob"],
    )


def _embedding_dim_of(config: ModelConfig) -> int | None:
    """The dimension of the token embeddings where it differs from the hidden size."""
    dim = config["hidden_size"]
    embedding_dim = config["embedding_size"] if config["model_type"] in ("albert", "electra") else dim
    return None if embedding_dim == dim else embedding_dim


def _mlm_head_of(config: ModelConfig) -> Build[Head]:
    fixed = config["model_type"] in ("roberta", "electra")  # transformers ignores hidden_act in their heads
    activation = GELU if fixed else config.activation("hidden_act")
    tied = config.get("tie_word_embeddings", True)
    return masked_lm_head(activation=activation, eps=config["layer_norm_eps"], tied=tied, embedding_dim=_embedding_dim_of(config))


def _classifier_of(config: ModelConfig) -> Build[Head]:
    model_type, dim = config["model_type"], config["hidden_size"]
    rate = config["classifier_dropout_prob"] if model_type == "albert" else config.get("classifier_dropout")
    head = partial(ClassifierHead, dropout=config["hidden_dropout_prob"] if rate is None else rate)
    if model_type == "roberta":
        return partial(head, hidden=dim, activation=option_at(ClassifierHead, "activation"))
    return partial(head, hidden=dim, activation=GELU) if model_type == "electra" else head


def _pooler_of(config: ModelConfig, task: Task, names: set[str]) -> Build[Pooler] | None:
    if config["model_type"] == "electra" and task == "multiple-choice":
        config.require(summary_type="first", summary_use_proj=True, summary_proj_to_labels=False)
        name = config.get("summary_activation", "gelu")
        return electra_summary(activation_named(name, "summary_activation") if name else None)
    needed = task in ("classification", "next-sentence") and config["model_type"] in ("bert", "albert")
    pooled = needed or task == "multiple-choice" or any("pooler." in name for name in names)
    return BERT_POOLER if pooled else None


def _to_config(tree: Any, model_type: str) -> dict[str, Any]:
    """config.json of a structure of this family."""
    layer, embedder, encoder = option_at(tree, "encoder.layer"), option_at(tree, "embedder"), option_at(tree, "encoder")
    offset, dim = option_at(embedder, "parts.1.offset"), option_at(tree, "dim")
    config: dict[str, Any] = {
        "hidden_size": dim,
        "num_hidden_layers": option_at(encoder, "layers"),
        "num_attention_heads": option_at(layer, "mixer.heads"),
        "intermediate_size": option_at(layer, "feedforward.hidden") or 4 * dim,
        "hidden_act": activation_name(option_at(layer, "feedforward.activation")),
        "hidden_dropout_prob": option_at(layer, "residual.dropout"),
        "attention_probs_dropout_prob": option_at(layer, "mixer.dropout"),
        "max_position_embeddings": option_at(embedder, "parts.1.length") + offset,
        "type_vocab_size": option_at(embedder, "parts.2.size"),
        "layer_norm_eps": option_at(layer, "residual.norm.eps"),
        "tie_word_embeddings": mlm_bias_module(tree) == "head",
    }
    if name_of(tree) in ("classifier", "multiple-choice", "tagger"):
        config["classifier_dropout_prob" if model_type == "albert" else "classifier_dropout"] = option_at(tree, "head.dropout")
    if model_type == "roberta":
        config |= {"pad_token_id": offset - 1}
    if model_type in ("albert", "electra"):
        config |= {"embedding_size": option_at(embedder, "embedding_dim") or dim}
    if model_type == "electra" and name_of(tree) == "multiple-choice":
        activation = option_at(tree, "pooler.transform.activation")
        config |= {"summary_activation": None if activation is None else activation_name(activation)}
    if model_type == "albert":
        config |= {"num_hidden_groups": option_at(encoder, "groups"), "inner_group_num": 1}
    return config


# ------------------------------------------------------------------------------------------------------------- families

_TASKS = {
    "Model": "encode",
    "ForMaskedLM": "masked-lm",
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "token-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForQuestionAnswering": "question-answering",
}
_DEFAULTS = {
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
_ALBERT_DEFAULTS = {
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout_prob": 0.1,
    "embedding_size": 128,
    "num_hidden_groups": 1,
}


def _register(
    title: str,
    rules_of: Callable[[Any], list[Rule]],
    tied: str,
    more_tasks: Mapping[str, str] = {},
    defaults: Mapping[str, Any] = {},
) -> None:
    model_type = title.lower()
    register_family(
        Family(
            model_type=model_type,
            prefix=f"{model_type}.",
            body=("embeddings", "embeddings_project", "encoder", "pooler"),
            from_config=_from_config,
            to_config=partial(_to_config, model_type=model_type),
            rules=rules_of,
            tasks={title + ending: task for ending, task in (_TASKS | {**more_tasks}).items()},
            defaults={**_DEFAULTS, **defaults},
            tied=(tied,),
            ignored=("*position_ids", "*token_type_ids"),
        )
    )


_BERT_TASKS = {"ForPreTraining": "masked-lm", "ForNextSentencePrediction": "next-sentence"}
_register("Bert", _bert_rules, "cls.predictions.decoder.*", _BERT_TASKS)
_register("Roberta", _roberta_rules, "lm_head.decoder.*", defaults={"pad_token_id": 1})
_register("Albert", _albert_rules, "predictions.decoder.*", {"ForPreTraining": "masked-lm"}, _ALBERT_DEFAULTS)
_register("Electra", _electra_rules, "generator_lm_head.weight", {"ForPreTraining": "replaced-token"}, {"embedding_size": 128})
