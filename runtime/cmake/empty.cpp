// A module without sources yet still is a target.
