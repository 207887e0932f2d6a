"""Iron."""


class Iron:
    """Heavy."""

    def lift(self, thing: Thing, height: int) -> Thing:
        """Up."""
        return thing

    def is_up(self, thing: Thing) -> bool:
        """Look."""
        return True

    def give(self, thing: Thing) -> Thing:
        """Hand over."""
        return thing

    def take(self, thing: Thing, source: Place) -> Thing:
        """Receive."""
        return thing
