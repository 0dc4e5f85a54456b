-- What enrichment left behind is remembered across harvests that failed in between (D14): settled_status then says
-- harvest_failed, and a later harvest that finds the same text would lose that the law is enriched. A new text ends it.
ALTER TABLE law_entries
    ADD COLUMN IF NOT EXISTS enrichment_status law_status;

CREATE OR REPLACE FUNCTION supervisor_remember_law_status() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF OLD.status NOT IN ('unknown', 'queued', 'harvesting', 'enriching') THEN
        NEW.settled_status := OLD.status;
    END IF;
    IF NEW.status = 'harvested' THEN
        NEW.enrichment_status := NULL;
    ELSIF OLD.status IN ('enriched', 'enrich_failed', 'enrich_exhausted') THEN
        NEW.enrichment_status := OLD.status;
    END IF;
    IF NEW.status = 'enrich_exhausted' THEN
        NEW.enrich_exhausted_at := COALESCE(NEW.enrich_exhausted_at, now());
    ELSIF NEW.status = 'enriched' OR (OLD.status = 'enrich_exhausted' AND NEW.status = 'enrich_failed') THEN
        NEW.enrich_exhausted_at := NULL;
    END IF;
    RETURN NEW;
END $body$;
