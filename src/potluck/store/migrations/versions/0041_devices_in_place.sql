-- Assignments and ends of attempts changed `changed`, which is in an index: each was a new entry in all
-- indexes of the device. They change the node in the same transaction, which has at least a core less or
-- more in use, and the scheduler reads a changed node with its devices.
DROP TRIGGER devices_changed ON devices;
CREATE TRIGGER devices_changed BEFORE UPDATE ON devices FOR EACH ROW
    WHEN ((OLD.node_id, OLD.uuid, OLD.position, OLD.is_present, OLD.kind, OLD.description, OLD.model,
           OLD.memory_bytes, OLD.price_micro_per_hour, OLD.standing, OLD.availability, OLD.why,
           OLD.hot_since, OLD.hot_celsius)
        IS DISTINCT FROM
          (NEW.node_id, NEW.uuid, NEW.position, NEW.is_present, NEW.kind, NEW.description, NEW.model,
           NEW.memory_bytes, NEW.price_micro_per_hour, NEW.standing, NEW.availability, NEW.why,
           NEW.hot_since, NEW.hot_celsius))
    EXECUTE FUNCTION stamp_change();
-- Room for the next version of a row on its page.
ALTER TABLE devices SET (fillfactor = 50);
