export { Document, LineCounter, isCollection, parseDocument } from "yaml";
