"""The record: schema, store, rewards, exports, reports. Knows result types only."""
