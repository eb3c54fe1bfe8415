"""``weft inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from weft.cli.console import print_result
from weft.cli.options import RunOrModel, command

Texts = Annotated[
    list[str], typer.Option("--input", metavar="TEXT", help="Input text, or the file of an image; may be repeated.")
]
Out = Annotated[
    Path,
    typer.Option("--out", metavar="FILE", help="Page to write (.html), or an image (.png) of one text's attention weights."),
]
Method = Annotated[
    Literal["attention", "integrated-gradients", "occlusion", "shapley"] | None,
    typer.Option(
        help="Attention weights, or attribution of the prediction to the input (shapley: exact, at most 10 tokens). Default: "
        "attention where the model has any; integrated-gradients for taggers, images and models without attention.",
        show_default=False,
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(metavar="CLASS", help="Class to attribute (default: the predicted one); may be repeated.", show_default=False),
]
AbsentToken = Annotated[
    Literal["zero", "mask", "unk", "pad", "black", "white"],
    typer.Option(
        help="What replaces an absent token: a vector of zeros or a special token; of an image: gray (zero), black or white."
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(help="Steps of integrated gradients (default: as many as the sum needs).", min=1, max=4096, show_default=False),
]
Patch = Annotated[
    int | None,
    typer.Option(help="Side of image patches in pixels (default: those of the model, or 1).", min=1, show_default=False),
]


@command
def inspect(
    run: RunOrModel,
    texts: Texts,
    out: Out = Path("inspect.html"),
    method: Method = None,
    target: Targets = None,
    baseline: AbsentToken = "zero",
    steps: Steps = None,
    patch: Patch = None,
    top_k: Annotated[int, typer.Option(help="Most probable tokens to show at each step.", min=1, max=100)] = 5,
) -> None:
    """Visualize a prediction: attention weights by layer and head with token and class probabilities, or its attribution to input
    tokens or image patches."""
    from weft.inference.load import load
    from weft.inspect.attribution import attribution, default_method
    from weft.inspect.attribution_page import attribution_page
    from weft.inspect.attribution_text import attribution_text
    from weft.inspect.inspection import inspect_run

    trained = load(run)
    chosen = method or ("attention" if out.suffix.lower() == ".png" else default_method(trained))
    if chosen == "attention":
        if target or steps or patch or baseline != "zero":
            raise ValueError(
                "--target, --baseline, --steps and --patch are options of attributions, but the method is attention; add "
                "--method integrated-gradients"
            )
        print_result(str(inspect_run(trained, texts, out, top=top_k)))
        return
    if out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{out}: attributions are written as a page; pass a file name that ends in .html")
    found = [
        attribution(trained, text, method=chosen, targets=target or (), baseline=baseline, steps=steps, patch=patch)
        for text in texts
    ]
    page = attribution_page(found, out, f"Attribution: {trained.name}")
    print_result("\n\n".join(map(attribution_text, found)) + f"\n\n{page}")
