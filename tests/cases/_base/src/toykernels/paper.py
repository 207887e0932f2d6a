"""Paper."""


class Paper:
    """Light."""

    def give(self, thing: Thing) -> Thing:
        """Hand over."""
        return thing

    def take(self, thing: Thing, source: Place) -> Thing:
        """Receive."""
        return thing
