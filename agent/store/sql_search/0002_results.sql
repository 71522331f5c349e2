-- What tools answered is searched as it reads, and no longer as JSON: all words are taken in anew.
INSERT INTO words (words) VALUES ('delete-all');
UPDATE reached SET row = 0, mark = x'';
