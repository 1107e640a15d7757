"""The pages of audits: one decision, one table of noise scales, and everything behind them."""
