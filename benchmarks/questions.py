"""A run that answers questions, side by side with answers by word overlap, on the run's own validation rows.

    python -m benchmarks.questions runs/answer-1 [SPLIT]

Overlap: ``weft.evaluate.word_overlap``, the best sentence and the best span. Both sides get SQuAD's exact match and F1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import weft
from weft.evaluate import AnswerExactMatch, AnswerF1, overlapping_sentence, overlapping_span


def metric_values(answers: Sequence[str], rows: Sequence[dict[str, str]]) -> str:
    found = AnswerExactMatch().compute(answers, rows) | AnswerF1().compute(answers, rows)
    return f"exact match {100 * found['answer_exact_match']:.1f}, F1 {100 * found['answer_f1']:.1f}"


def main() -> None:
    run = weft.load(sys.argv[1])
    name, dataset = run.dataset(sys.argv[2] if len(sys.argv) > 2 else "valid")
    rows = [dataset.raw(row) for row in range(len(dataset))]
    print(f"{name}: {len(rows):,} questions about {len({row['context'] for row in rows}):,} contexts")
    for title, answer in (("sentence", overlapping_sentence), ("span", overlapping_span)):
        print(f"best word overlap, {title}: {metric_values([answer(row['question'], row['context']) for row in rows], rows)}")
    print(f"{run.name}: {metric_values(run.predict([{n: row[n] for n in ('question', 'context')} for row in rows]), rows)}")


if __name__ == "__main__":
    main()
