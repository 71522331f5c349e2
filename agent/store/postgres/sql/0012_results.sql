-- What tools answered is searched as it reads, and no longer as JSON: their words are taken in anew when somebody searches.
UPDATE toolcrib.messages SET words = NULL WHERE words IS NOT NULL AND strpos(body, '"results"') > 0;
