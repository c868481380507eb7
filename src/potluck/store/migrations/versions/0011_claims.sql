-- Of one account those that are due, without a look at all that it has.
CREATE INDEX blob_claims_due ON blob_claims (account_id, look_at);
