"""What a person does on the dashboard, in the words of the page."""

from playwright.sync_api import Page, expect

from tests.server.pages.browser_wallet import BrowserWallet
from tests.wallets import Wallet


class DashboardPage:
    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.wallet: BrowserWallet | None = None

    def bring_wallet(self, wallet: Wallet | str) -> BrowserWallet:
        """Puts a wallet that really signs into the browser; before the first page is opened."""
        self.wallet = BrowserWallet("" if isinstance(wallet, Wallet) else wallet)
        if isinstance(wallet, Wallet):
            self.wallet.wallet = wallet
        self.wallet.announce(self.page)
        return self.wallet

    def sign_in(self, wallet: Wallet | str) -> None:
        self.bring_wallet(wallet)
        self.page.goto(f"{self.url}/sign-in")
        self.page.get_by_role("button", name="Sign in with Test Wallet").click()
        self.expect_signed_in()

    def expect_signed_in(self) -> None:
        expect(self.page.locator("[data-live]")).to_be_attached()

    def open(self, path: str) -> None:
        self.page.goto(self.url + path)

    def hide(self, is_hidden: bool) -> None:
        """As a browser does when its user looks at another tab."""
        self.page.evaluate(
            """(isHidden) => {
                Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }""",
            is_hidden,
        )

    def expect_title(self, title: str) -> None:
        expect(self.page.get_by_role("heading", level=1)).to_have_text(title)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).first.click()
