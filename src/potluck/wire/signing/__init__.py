"""What wallets and node keys sign, and how signatures are verified."""
