// What a field's event brings: its text, or whether it is checked.

/**
 * @param {(text: any) => void} put
 * @returns {(event: any) => void}
 */
export const typed = (put) => (event) => put(event.target.value);

/**
 * @param {(on: boolean) => void} put
 * @returns {(event: any) => void}
 */
export const checked = (put) => (event) => put(event.target.checked);
