"""Named model families: their compositions, and how their published config and tensor names map to ours."""
