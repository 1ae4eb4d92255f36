// A widget of a notebook: the page in a frame. The rows selected in it are `rows` of the model, in both directions.

function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.title = "Poincaré disc";
  frame.sandbox = "allow-scripts allow-downloads";
  frame.style.cssText = `display: block; width: 100%; height: ${Number(model.get("height"))}px; border: 0`;
  let told = null; // as this frame said it last
  const select = () => {
    if (model.get("rows") !== told) frame.contentWindow.postMessage({ horoball: "select", rows: model.get("rows") }, "*");
  };
  const listen = ({ source, data }) => {
    if (source !== frame.contentWindow || !data) return;
    if (data.horoball === "ready") select();
    if (data.horoball !== "selected") return;
    told = Array.from(data.rows);
    model.set("rows", told);
    model.save_changes();
  };
  window.addEventListener("message", listen);
  model.on("change:rows", select);
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => {
    window.removeEventListener("message", listen);
    model.off("change:rows", select);
  };
}

export default { render };
